"""Pods: our gate and what is stamped when it is lifted, placeholders, and pods that never ran.

Images of pods may be changed: who may patch pods everywhere runs code in kube-system. So a pod of ours to
change is one of a team that waits behind our gate, and one to delete has never been on a node.
"""

from typing import Final

from muster.model import names
from muster.model.stack import Scheduler, Stack
from muster.render import gang
from muster.render.tenancy.policies.controller.fence import fence
from muster.render.tenancy.policies.pods import asked
from muster.render.tenancy.policies.policy import (
    MANAGER,
    Kinds,
    Policy,
    Rule,
    owned_by_ray,
    quoted,
    same_but,
    same_metadata,
)

_GATE: Final = f"gate.name == '{names.GANG_GATE}'"
_STAMPED: Final = ("schedulingGates", "nodeSelector", "tolerations")
_TAINTS: Final = quoted((names.GPU_TAINT_KEY, names.GKE_QUEUED_TAINT_KEY))
# Of the taint on the nodes of the set that the pod is promised, once its gate goes.
_HELD: Final = " && ".join(
    (
        f"each.?key.orValue('') == '{names.HELD_TAINT_KEY}'",
        "each.?operator.orValue('Equal') == 'Equal'",
        "each.?effect.orValue('') == 'NoSchedule'",
        f"each.?value.orValue('').startsWith('{names.OWN_PREFIX}')",
        f"each.?value.orValue('') == object.metadata.?annotations[?'{names.PLACED_ANNOTATION}'].orValue('')",
        f"!variables.gates.exists(gate, {_GATE})",
    )
)
_UNBOUND: Final = "oldObject.spec.?nodeName.orValue('') == ''"
# Kueue's gate has the name of the annotation that makes a job elastic (ElasticJobSchedulingGate of 0.19.2).
# What is deleted would wait behind it for ever, with a claim that is not its PodSet's any more.
_NEVER_STARTED: Final = (
    f"oldObject.spec.?schedulingGates.orValue([]).exists(gate, gate.name == '{names.ELASTIC_JOB}') && "
    f"oldObject.metadata.?annotations[?'{names.CONSUME_ANNOTATION}'].hasValue()"
)
# A placeholder that brings its node: nothing else is in its namespace.
_OF_A_SET: Final = (
    f"(request.namespace == '{names.PLACEHOLDER_NAMESPACE}' && "
    f"{{of}}.metadata.name.startsWith('{names.OWN_PREFIX}') && "
    f"{{of}}.metadata.?labels[?'{names.SET_LABEL}'].hasValue())"
)
# What a container of a placeholder has, and what the API server adds to it.
_CONTAINER: Final = quoted(
    (
        *("name", "image", "resources", "securityContext"),
        *("imagePullPolicy", "terminationMessagePath", "terminationMessagePolicy"),
    )
)


def pods(stack: Stack) -> Policy:
    return fence(
        "muster-controller-pods",
        purpose="The controller lets gated pods of teams start and deletes its own placeholders.",
        kinds=(Kinds(group="", resources=("pods",), operations=("CREATE", "UPDATE", "DELETE")),),
        words=(
            ("isOfTeam", f"'{names.TEAM_LABEL}' in namespaceObject.metadata.?labels.orValue({{}})"),
            ("gatesBefore", "oldObject == null ? [] : oldObject.spec.?schedulingGates.orValue([])"),
            ("gates", "object == null ? [] : object.spec.?schedulingGates.orValue([])"),
        ),
        rules=(
            *(_update(stack), _metadata(stack), _delete(stack)),
            *((_placeholder(stack),) if gang.makes_pods(stack) else ()),
        ),
    )


def _hands_over(stack: Stack) -> bool:
    """Whether gated pods get what placeholders have brought. With Kueue the templates of jobs do."""
    return stack.scheduler is Scheduler.KAI and bool(stack.placeholder_pools)


def _update(stack: Stack) -> Rule:
    # With KAI a gang that takes the room of others is bounded to their nodes. Of the affinity of a gated pod
    # the API server lets only the demands on nodes be changed, and these only be narrowed.
    bounded = ("affinity",) if stack.scheduler is Scheduler.KAI else ()
    rest = same_but("object.spec", "oldObject.spec", free=f"key in {quoted((*_STAMPED, *bounded))}")
    lifted = f"variables.gatesBefore.filter(gate, !({_GATE}))"
    tolerations = "{of}.spec.?tolerations.orValue([])"
    held, of_a_set = (
        f" || ({_HELD})",
        f", and of {names.HELD_TAINT_KEY} for the set in {names.PLACED_ANNOTATION}",
    )
    added = (
        f"{tolerations.format(of='object')}.all(each, each in {tolerations.format(of='oldObject')} || "
        f"each.?key.orValue('') in {_TAINTS}{held if _hands_over(stack) else ''})"
    )
    return Rule(
        holds=f"request.operation != 'UPDATE' || (variables.isOfTeam && "
        f"variables.gatesBefore.exists(gate, {_GATE}) && ({rest}) && "
        f"(variables.gates == variables.gatesBefore || variables.gates == {lifted}) && {added})",
        message="'of pods this account changes those of teams that wait behind "
        f"{names.GANG_GATE}: this gate, nodeSelector, {'node affinity, ' if bounded else ''}and tolerations "
        "of the taints "
        f"{names.GPU_TAINT_KEY} and {names.GKE_QUEUED_TAINT_KEY}{of_a_set if _hands_over(stack) else ''}'",
    )


def _metadata(stack: Stack) -> Rule:
    claims = [names.CONSUME_ANNOTATION, names.CLASS_ANNOTATION]
    claims += names.UNDISTURBED if _hands_over(stack) else []
    free = f"(key.startsWith('{names.GROUP}/') || key in {quoted(claims)})"
    return Rule(
        holds=f"request.operation != 'UPDATE' || ({same_metadata('object', 'oldObject', free=free)})",
        message="'this account writes its own annotations of a pod and nothing else of its metadata'",
    )


def _delete(stack: Stack) -> Rule:
    ray = owned_by_ray("oldObject", kinds=("RayCluster",))
    if stack.scheduler is Scheduler.KAI:
        own, what = "false", "pods of Ray clusters that no node has yet"
        if stack.placeholder_pools:
            own, what = _OF_A_SET.format(of="oldObject"), f"its placeholders, and {what}"
    else:
        own = f"({_own('oldObject')}) || {_OF_A_SET.format(of='oldObject')}"
        ray = f"{ray} && {_NEVER_STARTED}"
        what = "its placeholders, and pods of elastic gangs that were never let start"
    ray = f"{_UNBOUND} && {ray}"
    if stack.deletes_without_quota:
        # Whether their work has quota no policy can see: the manager reads it before each deletion.
        ray = f"({ray} || {MANAGER} && !({_UNBOUND}) && ({asked('oldObject')}))"
        what = f"{what}, and pods with devices on nodes"
    return Rule(
        holds=f"request.operation != 'DELETE' || ({own}) || (variables.isOfTeam && {ray})",
        message=f"'of pods this account deletes {what}, in namespaces of teams'",
    )


def _own(of: str) -> str:
    """A placeholder by its name, label and owner."""
    return (
        f"{of}.metadata.name.startsWith('{names.OWN_PREFIX}') && "
        f"{of}.metadata.?labels[?'{names.WORKLOAD_UID_LABEL}'].hasValue() && "
        f"{of}.metadata.?ownerReferences.orValue([]).exists(owner, owner.kind == 'Workload' && "
        "owner.apiVersion.startsWith('kueue.x-k8s.io/'))"
    )


def _placeholder(stack: Stack) -> Rule:
    """It only waits: no credentials, no files, no way to the node, and no command but its image's."""
    spec = "object.spec"
    plain = " && ".join(
        (
            f"{spec}.containers.size() == 1",
            f"{spec}.containers.all(each, each.all(key, key in {_CONTAINER}) && "
            "each.?securityContext.?allowPrivilegeEscalation.orValue(true) == false && "
            "each.?securityContext.?privileged.orValue(false) == false && "
            "each.?securityContext.?capabilities.?add.orValue([]).size() == 0)",
            f"{spec}.?initContainers.orValue([]).size() == 0",
            f"{spec}.?volumes.orValue([]).size() == 0",
            f"{spec}.?automountServiceAccountToken.orValue(true) == false",
            f"{spec}.?securityContext.?runAsNonRoot.orValue(false)",
            f"{spec}.?nodeName.orValue('') == ''",
            *(f"!{spec}.?{field}.orValue(false)" for field in ("hostNetwork", "hostPID", "hostIPC")),
        )
    )
    held = f"(variables.isOfTeam && {_own('object')})" if gang.holds(stack) else "false"
    brought = _OF_A_SET.format(of="object") if stack.placeholder_pools else "false"
    return Rule(
        holds=f"request.operation != 'CREATE' || (({held} || {brought}) && {plain})",
        message="'this account creates pods that keep nodes for a Workload of a team: names that begin with "
        f"{names.OWN_PREFIX}, one container, no volumes, no token, nothing of the node'",
    )
