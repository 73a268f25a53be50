"""Pods with GPUs have to belong to admitted work.

Whether a pod in a team's namespace may request a GPU depends on its creator and its owner: the owner is the
work that the queue admitted, or Kueue's gate keeps the pod until its queue has admitted it.
"""

from typing import Final

from muster.model import names
from muster.model.stack import Scheduler, Stack
from muster.model.work import Work
from muster.render import gang
from muster.render.tenancy.policies import fabrics, placement, pod_templates, templates
from muster.render.tenancy.policies.ending import foreign_finalizers, grace_faults
from muster.render.tenancy.policies.policy import ADMINISTRATOR, OURS, SYSTEM, Kinds, Policy, Rule

_PARENT: Final = "kueue.x-k8s.io/pod-suspending-parent"
_GATE: Final = "kueue.x-k8s.io/admission"
_ADMITTED: Final = (
    f"{SYSTEM} && object.metadata.?ownerReferences.orValue([]).exists(owner, "
    f"owner.?controller.orValue(false) && "
    "((owner.kind == 'Job' && owner.apiVersion.startsWith('batch/')) || "
    "(owner.kind == 'RayCluster' && owner.apiVersion.startsWith('ray.io/')) || "
    # Of what serves, where Kueue has put its gate there (pkg/controller/jobs/pod of 0.19.2). While its
    # webhook is down there is none, and the pod is refused.
    "(owner.kind in ['StatefulSet', 'ReplicaSet'] && owner.apiVersion.startsWith('apps/') && "
    f"object.metadata.?annotations[?'{_PARENT}'].hasValue() && "
    f"object.spec.?schedulingGates.orValue([]).exists(gate, gate.name == '{_GATE}'))))"
)

# Placeholder pods, which keep the nodes of an incomplete gang; they are deleted with the Workload.
_PLACEHOLDER: Final = (
    f"{OURS} && object.metadata.?ownerReferences.orValue([]).exists(owner, "
    "owner.kind == 'Workload' && owner.apiVersion.startsWith('kueue.x-k8s.io/'))"
)
# What lets a pod onto nodes that are kept for a gang.
_ENTERS: Final = f"{placement.HELD} + {placement.EVERY_TAINT}"


def pods(stack: Stack) -> Policy:
    return Policy(
        name="muster-pods",
        purpose=(
            "A pod with GPUs belongs to work that a queue admitted. A bare Pod belongs to no queue, and the "
            "pods of a Deployment to one where the stack serves Deployments."
        ),
        kinds=(Kinds(group="", resources=("pods",), operations=("CREATE",)),),
        words=(
            ("gpu", templates.asked("object")),
            ("admitted", _ADMITTED),
            ("finalizers", foreign_finalizers("object")),
            ("pod", pod_templates.pod_of("''", "dyn(object)")),
            ("faults", f"[variables.pod].map(pod, {_faults(stack)})[0]"),
            *((("held", f"[variables.pod].map(pod, {_ENTERS})[0]"),) if stack.placeholder_pools else ()),
        ),
        rules=(
            *(_owner(stack), _priority(), _finalizers(), _placement()),
            *((_held(),) if stack.placeholder_pools else ()),
            *(_kai(stack) if stack.scheduler is Scheduler.KAI else ()),
        ),
    )


def _faults(stack: Stack) -> str:
    return " + ".join((placement.faults(stack), fabrics.faults(), grace_faults(stack)))


def _owner(stack: Stack) -> Rule:
    kept = f" || {_PLACEHOLDER}" if gang.holds(stack) else ""
    unqueued = "a bare Pod" if Work.DEPLOYMENT in stack.work else "a bare Pod or a Deployment"
    return Rule(
        holds=f"!variables.gpu || variables.admitted{kept} || {ADMINISTRATOR}",
        message=f"'GPUs are for work that a queue admitted; submit a {templates.kinds(stack)}, with a queue, "
        f"in place of {unqueued}'",
    )


def _priority() -> Rule:
    """Pods of admitted work were checked in its templates."""
    return Rule(
        holds=f"variables.admitted || object.spec.?priorityClassName.orValue('') == '' || {SYSTEM} && "
        f"object.spec.?priority.orValue(0) <= 0 || {ADMINISTRATOR}",
        message="'a pod outside the queues must not have priority over queued work; remove "
        "spec.priorityClassName'",
    )


def _finalizers() -> Rule:
    """Controllers copy those of a template, in which a tenant is refused them (templates.py). What exists
    from before is refused here, before its pods hold any node.
    """
    return Rule(
        holds=f"variables.finalizers.size() == 0 || !variables.admitted || {ADMINISTRATOR}",
        message="'a finalizer would keep a pod and its node after its work has ended; remove ' + "
        "variables.finalizers.join(', ') + ' from metadata.finalizers of the pod template'",
    )


def _placement() -> Rule:
    """Of pods that a tenant makes by hand. Those of controllers have what their template has."""
    return Rule(
        holds=f"variables.faults.size() == 0 || {SYSTEM} || {ADMINISTRATOR}",
        message="'the cluster places and ends the pods of a team; in the Pod ' + variables.faults.join('; ')",
    )


def _held() -> Rule:
    """Also of controllers that no queue knows: a tenant writes the template of a Deployment."""
    return Rule(
        holds=f"variables.held.size() == 0 || variables.admitted || {ADMINISTRATOR}",
        message="'nodes kept for a gang are for its own pods; in the pod ' + variables.held.join('; ')",
    )


def _kai(stack: Stack) -> tuple[Rule, ...]:
    """A webhook that is down leaves pods without their gate: those are refused here, and no others."""
    rules = [
        Rule(
            holds=f"!variables.gpu || object.spec.?schedulerName.orValue('') == '{names.KAI_SCHEDULER}' || "
            f"{ADMINISTRATOR}",
            message=f"'pods with GPUs are scheduled by KAI, which knows the queues; set schedulerName: "
            f"{names.KAI_SCHEDULER} "
            "in the pod templates'",
        )
    ]
    if stack.is_gated:
        gate = f"object.spec.?schedulingGates.orValue([]).exists(gate, gate.name == '{names.GANG_GATE}')"
        rules.append(
            Rule(
                holds=f"!variables.gpu || {gate} || {ADMINISTRATOR}",
                message=f"'pods with GPUs wait behind the gate {names.GANG_GATE} until their gang has its "
                f"capacity; the webhook of Muster puts it there when a {templates.kinds(stack)} is created: "
                "if it was down, create the object again. A batch Job gets no gate, and so no GPUs: submit a "
                "RayJob'",
            )
        )
    return tuple(rules)
