"""Pods of work that runs: its controllers change them, and no tenant does.

A queue counts a gang when it starts. Afterwards the gates of a pod decide whether it starts, its labels whose
it is (KubeRay and the job controller make another in place of one that they do not find), and its annotations
which capacity it takes. Subresources are in protected.py, new pods in pods.py.
"""

from typing import Final

from muster.model.stack import Stack
from muster.render.tenancy.policies import fabrics, placement, pod_templates
from muster.render.tenancy.policies.placement import OF_A_QUEUE
from muster.render.tenancy.policies.policy import KUBELETS, TRUSTED, Kinds, Policy, Rule, same_metadata

_OWNERS: Final = "{of}.metadata.?ownerReferences.orValue([]).filter(owner, owner.?controller.orValue(false))"


def changes(stack: Stack) -> Policy:
    """Ray's autoscaler patches pods only to resize them in place, which no queue counts."""
    return Policy(
        name="muster-pod-changes",
        purpose="A queue has counted the pods of work that runs: only its controllers change them.",
        kinds=(Kinds(group="", resources=("pods", "pods/ephemeralcontainers"), operations=("UPDATE",)),),
        unless=(*TRUSTED, KUBELETS),
        words=(
            ("owners", _OWNERS.format(of="oldObject")),
            ("lifted", _lifted()),
            ("added", _added(stack)),
        ),
        rules=(_of_work(), _gates(), _joined(), _additions()),
    )


def _of_work() -> Rule:
    """By the subresource the API server lets containers be added for debugging, and nothing else."""
    same = f"object.spec == oldObject.spec && {same_metadata('object', 'oldObject')}"
    return Rule(
        holds=f"variables.owners.size() == 0 || request.?subResource.orValue('') != '' || ({same})",
        message="'only its controllers change the pods of a job: its queue has counted them; change ' + "
        "variables.owners[0].kind + ' ' + variables.owners[0].name",
    )


def _lifted() -> str:
    return (
        f"oldObject.spec.?schedulingGates.orValue([]).filter(gate, {OF_A_QUEUE} && "
        "!object.spec.?schedulingGates.orValue([]).exists(kept, kept.name == gate.name)).map(gate, gate.name)"
    )


def _gates() -> Rule:
    return Rule(
        holds="variables.lifted.size() == 0",
        message="'a pod waits behind ' + variables.lifted.join(', ') + ' until its queue admits it; leave "
        "spec.schedulingGates as they are'",
    )


def _joined() -> Rule:
    """A pod that no controller made joins none."""
    return Rule(
        holds=f"{_OWNERS.format(of='object')}.size() == variables.owners.size()",
        message="'a pod keeps the controller that created it; leave metadata.ownerReferences as they are'",
    )


def _added(stack: Stack) -> str:
    """The API server lets tolerations be added to a pod that exists, and containers for debugging: those that
    a new one may not have.
    """
    found = f"{placement.faults(stack)} + {fabrics.faults()}"
    if stack.placeholder_pools:
        found += f" + {placement.HELD}"
    pods = (pod_templates.pod_of("''", f"dyn({of})") for of in ("object", "oldObject"))
    now, before = (f"[{pod}].map(pod, {found})[0]" for pod in pods)
    return f"{now}.filter(fix, !(fix in {before}))"


def _additions() -> Rule:
    return Rule(
        holds="variables.added.size() == 0",
        message="'the cluster decides where the pods of a team run and which GPUs they get; in the Pod ' + "
        "variables.added.join('; ')",
    )
