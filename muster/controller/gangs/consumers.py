"""Which pods of a gang already have a node, by the request they consume and their PodSet.

Where PodSets share one request, a small pod does not count for a missing large one. Kueue writes the PodSet
on every pod that it starts (pkg/controller/jobframework/reconciler.go of 0.19.2); a pod without it (KAI's, or
one of a PodSet that the gang does not have) counts for the first PodSet that needs one. The caller decides
which nodes count.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from muster.controller.gangs.demand import Demand
from muster.controller.gangs.identity import promised_by
from muster.controller.gangs.objects import Pod
from muster.controller.gangs.split import Gang
from muster.model.names import POD_SET_LABEL


class Consumers:
    """Each pod can be taken once. `pods`: those that have their node; `ended`: pods of a PodSet that are done
    and come back no more.
    """

    def __init__(self, gang: Gang, pods: Iterable[Pod], *, ended: Mapping[str, int]) -> None:
        self._ended = ended
        known = {demand.pod_set for spec in gang.request_specs for demand in spec.demands}
        self._left: Counter[tuple[str, str]] = Counter()
        for pod in pods:
            if request := promised_by(pod.metadata.annotations):
                pod_set = pod.metadata.labels.get(POD_SET_LABEL, "")
                self._left[request, pod_set if pod_set in known else ""] += 1

    def lacking(self, demand: Demand, requests: Iterable[str]) -> int:
        """How many pods of the PodSet have no node yet, after it has taken what consumes these requests: of
        each its own, then those of no name.
        """
        needed = max(0, demand.count - self._ended.get(demand.pod_set, 0))
        for request in requests:
            for name in (demand.pod_set, ""):
                taken = min(needed, self._left[request, name])
                self._left[request, name] -= taken
                needed -= taken
        return needed
