"""Rules between the fields of a policy.

Responsible for which policies the controller applies. Not responsible for reading them (reader.py) nor for
whether flavors exist.
"""

from collections.abc import Iterator
from datetime import timedelta

from muster.model.gangpolicy.durations import format_duration
from muster.model.gangpolicy.policy import GangPolicy, OnStaggered, OnStockOut
from muster.model.names import GKE_QUEUED_CLASS
from muster.model.violations import Violation


def violations(policy: GangPolicy, *, path: str = "spec") -> list[Violation]:
    """Every broken rule; a policy without violations is one that the controller obeys."""
    return [*_clock_violations(policy, path), *_flavor_violations(policy, path)]


def _clock_violations(policy: GangPolicy, path: str) -> Iterator[Violation]:
    positive = {
        "queueTimeout": policy.queue_timeout,
        "provisionTimeout": policy.provision_timeout,
        "bookingWindow": policy.booking_window,
        "retry.base": policy.retry.base,
        "retry.deadline": policy.retry.deadline,
    }
    for name, duration in positive.items():
        if duration <= timedelta(0):
            yield Violation(f"{path}.{name}", "must be longer than 0s.", "write a duration such as 30m.")
    if policy.booking_margin >= policy.booking_window:
        yield Violation(
            f"{path}.bookingMargin",
            f"{format_duration(policy.booking_margin)} leaves nothing of the booking window of "
            f"{format_duration(policy.booking_window)}.",
            "make it shorter than bookingWindow; 1m is usual.",
        )
    if policy.retry.max < policy.retry.base:
        yield Violation(
            f"{path}.retry.max", "is shorter than retry.base.", "make it at least as long as retry.base."
        )
    if not 0 <= policy.retry.jitter_percent <= 100:
        yield Violation(f"{path}.retry.jitterPercent", "must lie between 0 and 100.", "20 is usual.")
    if policy.retry.per_minute < 0:
        yield Violation(f"{path}.retry.perMinute", "cannot be negative.", "0 means: no bound; 300 is usual.")
    if policy.on_stock_out is OnStockOut.NEXT_FLAVOR and policy.kai is not None:
        yield Violation(
            f"{path}.onStockOut",
            "`nextFlavor` is not served with KAI: its queues have no flavors, jobs name their pool.",
            "write `retry`.",
        )
    if policy.on_staggered is OnStaggered.HOLD and policy.kai is not None:
        yield Violation(
            f"{path}.onStaggered",
            "`hold` is not supported with KAI: the pods that keep the nodes would be in no queue.",
            "write `release`: a piece that comes too early is released and requested again.",
        )


def _flavor_violations(policy: GangPolicy, path: str) -> Iterator[Violation]:
    if not policy.managed_resources:
        yield Violation(
            f"{path}.managedResources", "is empty.", "name at least one resource: [nvidia.com/gpu]."
        )
    if "" in policy.managed_resources or len({*policy.managed_resources}) < len(policy.managed_resources):
        yield Violation(
            f"{path}.managedResources",
            "has an empty name, or one name twice, which the API server refuses.",
            "name each resource once.",
        )
    seen: set[str] = set()
    for index, flavor in enumerate(policy.flavors):
        where = f"{path}.flavors[{index}]"
        if not flavor.name:
            yield Violation(f"{where}.name", "is empty.", "write the name of a ResourceFlavor.")
        if flavor.name in seen:
            yield Violation(f"{where}.name", f"{flavor.name} is listed twice.", "merge the two entries.")
        seen.add(flavor.name)
        if min(flavor.max_nodes, flavor.gpus_per_node, flavor.gpu_memory) < 0:
            yield Violation(
                where, "maxNodes, gpusPerNode and gpuMemory cannot be negative.", "0 means: not known."
            )
        if flavor.slice_nodes < 1:
            yield Violation(f"{where}.sliceNodes", "is below 1.", "1 means: each node is its own.")
        one_each = flavor.one_pod_set_per_request
        if flavor.provisioning_class_name == GKE_QUEUED_CLASS and not one_each:
            yield Violation(
                f"{where}.onePodSetPerRequest",
                f"{GKE_QUEUED_CLASS} takes one PodSet a request.",
                "write true.",
            )
