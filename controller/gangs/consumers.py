"""Which pods of a gang have their node already, by what they consume and the PodSet that they are of.

Decides whose place a pod takes where PodSets share one request: a small pod is none of the large ones that
are missing. Kueue writes the PodSet on every pod that it starts (pkg/controller/jobframework/reconciler.go of
0.19.2); a pod without its word (KAI's, or one that names a PodSet that the gang has not) counts for whichever
asks first. Leaves to the caller which nodes count.
"""

from collections import Counter
from collections.abc import Iterable

from controller.gangs.objects import Pod
from controller.gangs.split import Gang
from model.names import CONSUME_ANNOTATION, POD_SET_LABEL


class Consumers:
    """Each pod can be taken once."""

    def __init__(self, gang: Gang, pods: Iterable[Pod]) -> None:
        known = {demand.pod_set for ask in gang.asks for demand in ask.demands}
        self._left: Counter[tuple[str, str]] = Counter()
        for pod in pods:
            if request := pod.metadata.annotations.get(CONSUME_ANNOTATION):
                pod_set = pod.metadata.labels.get(POD_SET_LABEL, "")
                self._left[request, pod_set if pod_set in known else ""] += 1

    def take(self, request: str, pod_set: str, most: int) -> int:
        """How many of `most` pods of this PodSet consume the request: its own, then those of no name."""
        own = self._take((request, pod_set), most)
        return own + self._take((request, ""), most - own)

    def _take(self, key: tuple[str, str], most: int) -> int:
        taken = min(most, self._left[key])
        self._left[key] -= taken
        return taken
