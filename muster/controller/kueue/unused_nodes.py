"""Why no gang of Kueue starts on the node of a placeholder that goes."""

from muster.controller.gangs.metrics import reason_of
from muster.controller.gangs.objects import Placeholder
from muster.controller.gangs.retry import parse_history
from muster.controller.gangs.unused_nodes import ASKED_AGAIN, GONE
from muster.controller.kueue.identity import WORKLOAD_UID
from muster.controller.kueue.indexes import workload_of
from muster.controller.kueue.view import View


def unused_cause(view: View, pod: Placeholder) -> str:
    """Empty where the gang has started."""
    found = (view.workloads.get(key) for key in workload_of(pod))
    workload = next((each for each in found if each), None)
    if workload is None or workload.metadata.uid != pod.metadata.labels.get(WORKLOAD_UID):
        return GONE
    if workload.status.holds("Admitted"):
        return ""
    if workload.status.holds("Finished"):
        return GONE
    history = parse_history(workload)
    failure = history.refused or history.last_failure
    return ASKED_AGAIN if workload.spec.active or not failure else reason_of(failure)
