"""What the queues hold already, and what is on its way to them.

Computed from pods and from gangs that are being provisioned: pods with a node (KAI counts them as allocated,
a little later than we see them), released pods that have no node yet, and gangs that have requested capacity
or have begun to pass. Computed from API objects each time: nothing is kept in memory.
"""

from collections.abc import Iterable, Iterator

from muster.controller.gangs.identity import ATTEMPT
from muster.controller.kai.labels import is_bound, is_finished, is_gated
from muster.controller.kai.objects import GatedPod
from muster.controller.kai.queue_capacity import QueueDemand, QueueUsage
from muster.controller.kai.snapshot import BatchSnapshot


def is_released(pod: GatedPod) -> bool:
    """We removed its gate, and no node has it yet."""
    return ATTEMPT in pod.metadata.annotations and not (is_gated(pod) or is_bound(pod) or is_finished(pod))


def of_pods(pods: Iterable[tuple[GatedPod, QueueDemand]]) -> Iterator[QueueUsage]:
    """Pods that wait without a gate of ours and without our release count for nothing: KAI may never start
    them.
    """
    for pod, queue_demand in pods:
        if is_finished(pod) or is_gated(pod):
            continue
        if is_bound(pod) or is_released(pod):
            yield QueueUsage(demand=queue_demand, is_bound=is_bound(pod))


def of_gangs(gathering: Iterable[BatchSnapshot]) -> Iterator[QueueUsage]:
    """A gang that cannot be read holds nothing: it gets nothing either."""
    for snapshot in gathering:
        try:
            yield from snapshot.reserved_usage
        except ValueError:
            continue
