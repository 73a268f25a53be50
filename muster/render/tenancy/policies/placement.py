"""Which scheduler places a pod, and on which nodes: one rule for pods and for pod templates.

A pod that names its node, or tolerates every taint, takes room that was bought for another gang. A pod that
names a scheduler which does not run is never placed.
"""

from typing import Final

from muster.model import names
from muster.model.stack import Scheduler, Stack
from muster.render.tenancy.policies.policy import quoted

# Of `gate`: Kueue's or ours, which their controllers add and remove.
OF_A_QUEUE: Final = f"(gate.name.startsWith('kueue.x-k8s.io/') || gate.name.startsWith('{names.GROUP}/'))"
_DEFAULT_SCHEDULER: Final = "default-scheduler"


# Of `pod`: the tolerations of the taint that keeps nodes for one gang, which its value names. The value is in
# the sentence: another one is another fault.
HELD: Final = (
    f"pod.spec.?tolerations.orValue([]).filter(each, each.?key.orValue('') == '{names.HELD_TAINT_KEY}')"
    f".map(each, 'remove the toleration of {names.HELD_TAINT_KEY}' + "
    "(each.?operator.orValue('') == 'Exists' ? '' : '=' + each.?value.orValue('')))"
)

# Without a key it is for every taint. Kubernetes allows that with Exists alone.
EVERY_TAINT: Final = (
    "(pod.spec.?tolerations.orValue([]).exists(each, each.?key.orValue('') == '') ? "
    "['name the key of each of tolerations'] : [])"
)


def faults(stack: Stack) -> str:
    """What of `pod.spec` an author has to change, as a CEL list of sentences."""
    schedulers = ["", _DEFAULT_SCHEDULER]
    if stack.scheduler is Scheduler.KAI:
        schedulers.append(names.KAI_SCHEDULER)
    return " + ".join(
        (
            f"(pod.spec.?schedulerName.orValue('') in {quoted(schedulers)} ? [] : "
            f"['set schedulerName to {schedulers[-1]}, not ' + pod.spec.schedulerName])",
            "(pod.spec.?nodeName.orValue('') == '' ? [] : "
            "['remove nodeName, and choose nodes by nodeSelector or affinity'])",
            EVERY_TAINT,
        )
    )
