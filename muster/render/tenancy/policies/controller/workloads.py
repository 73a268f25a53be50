"""Workloads: our own check, whether they are active, and our own annotations.

An account that may write the status of Workloads could admit anything. With this policy ours changes no other
check, nothing else of the status, nothing of the spec but `active`, and no Workload that our check is not on.
"""

from typing import Final

from muster.model import names
from muster.model.stack import Scheduler, Stack
from muster.render import gang
from muster.render.tenancy.policies.controller.fence import fence
from muster.render.tenancy.policies.policy import (
    RECORDER,
    Kinds,
    Policy,
    Rule,
    annotations_of,
    quoted,
    same_but,
    same_metadata,
)

# RayClusters. Of elastic gangs of Kueue claims come off the pod templates, those of KAI keep the history of
# their pods in annotations of ours, and nothing else changes.
# Who may patch a RayCluster may run any image in its pods.

_NONE: Final = "dyn({})"
_HEAD: Final = "headGroupSpec"
_WORKERS: Final = "workerGroupSpecs"


_KINDS: Final = (Kinds(group="ray.io", resources=("rayclusters",), operations=("UPDATE",)),)


def ray_clusters(stack: Stack) -> Policy:
    if stack.scheduler is Scheduler.KAI:
        return fence(
            "muster-controller-ray-clusters",
            purpose="The controller notes failed tries on RayClusters.",
            kinds=_KINDS,
            rules=(_noted(),),
        )
    return fence(
        "muster-controller-ray-clusters",
        purpose="The controller removes claims on capacity from RayClusters.",
        kinds=_KINDS,
        words=(*((f"groups{when}", _groups(of)) for when, of in (("", "object"), ("Before", "oldObject"))),),
        rules=(_ray_clusters_rest(), _templates(stack)),
    )


def _noted() -> Rule:
    own = f"key.startsWith('{names.GROUP}/')"
    return Rule(
        holds=f"object.spec == oldObject.spec && {same_metadata('object', 'oldObject', free=own)}",
        message=f"'this account writes annotations of a RayCluster that begin with {names.GROUP}/ and "
        "nothing else of it'",
    )


def _groups(of: str) -> str:
    """The head and the worker groups in one list. No worker group has an empty name."""
    return f"[dyn({of}.spec.?{_HEAD}.orValue({_NONE}))] + {of}.spec.?{_WORKERS}.orValue([])"


def _ray_clusters_rest() -> Rule:
    spec = same_but("object.spec", "oldObject.spec", free=f"key in {quoted((_HEAD, _WORKERS))}")
    group = same_but("group", "old", free="key == 'template'")
    return Rule(
        holds=f"{same_metadata('object', 'oldObject')} && {spec} && "
        "variables.groups.size() == variables.groupsBefore.size() && "
        f"variables.groups.all(group, variables.groupsBefore.exists(old, {_is_same_group()} && {group}))",
        message="'this account removes claims from the pod templates of a RayCluster and changes nothing "
        "else "
        "of it'",
    )


def _is_same_group() -> str:
    return "group.?groupName.orValue('') == old.?groupName.orValue('')"


def _templates(stack: Stack) -> Rule:
    """A key that is not among the claims keeps its value, and a claim may only go."""
    now, before = f"group.?template.orValue({_NONE})", f"old.?template.orValue({_NONE})"
    both = quoted(("metadata", "spec"))
    claims = quoted(names.CLAIM_ANNOTATIONS)
    kept = " && ".join(
        (
            f"({same_but(now, before, free=f'key in {both}')})",
            _removal(now, before, part="metadata", field="annotations", claims=claims),
            _removal(now, before, part="spec", field="nodeSelector", claims=quoted(_pins(stack))),
        )
    )
    return Rule(
        holds="variables.groups.all(group, variables.groupsBefore.exists(old, "
        f"{_is_same_group()} && {kept}))",
        message=f"'this account removes {', '.join(names.CLAIM_ANNOTATIONS)} and the node selectors of "
        f"leases "
        "from the pod templates of a RayCluster and changes nothing else of them'",
    )


def _removal(now: str, before: str, *, part: str, field: str, claims: str) -> str:
    """Whether a part of the template is the same but for a map that lost claims."""
    rest = same_but(
        f"{now}.?{part}.orValue({_NONE})", f"{before}.?{part}.orValue({_NONE})", free=f"key == '{field}'"
    )
    after = f"{now}.?{part}.?{field}.orValue({_NONE})"
    had = f"{before}.?{part}.?{field}.orValue({_NONE})"
    return (
        f"({rest}) && {after}.all(key, key in {had} && {had}[key] == {after}[key]) && "
        f"{had}.all(key, key in {after} || key in {claims})"
    )


def _pins(stack: Stack) -> list[str]:
    """Node labels of leases, by which pods are pinned to them."""
    flavors = gang.gang_policy(stack).flavors
    return sorted({each.key for flavor in flavors for each in flavor.node_selector_from_details})


# Workloads, for the recorder's account: the annotation that says when they may start, and nothing else.
# Who may patch Workloads may change their priority, take them out of the queue, or name another queue.

_FORECASTS_OWN_KEY: Final = f"key == '{names.FORECAST_ANNOTATION}'"
_SAME: Final = "object.spec == oldObject.spec && object.?status == oldObject.?status"


def forecasts() -> Policy:
    return Policy(
        name=names.RECORDER,
        purpose="The recorder writes when a job may start.",
        kinds=(
            Kinds(group="kueue.x-k8s.io", resources=("workloads", "workloads/*"), operations=("UPDATE",)),
        ),
        unless=(("another", f"!({RECORDER})"),),
        everywhere=True,
        rules=(
            Rule(
                holds=f"{_SAME} && {same_metadata('object', 'oldObject', free=_FORECASTS_OWN_KEY)}",
                message=f"'this account writes annotation {names.FORECAST_ANNOTATION} of a Workload and "
                "nothing else'",
            ),
        ),
    )


# The same PodSets, each as it was but for its affinity.
_SAME_POD_SET: Final = " && ".join(
    (
        same_but("new", "old", free="key == 'template'"),
        same_but("new.template", "old.template", free="key == 'spec'"),
        same_but("new.template.spec", "old.template.spec", free="key == 'affinity'"),
    )
)
_STEERED: Final = (
    "object.spec.podSets.size() == oldObject.spec.podSets.size() && "
    f"object.spec.podSets.all(new, oldObject.spec.podSets.exists(old, {_SAME_POD_SET}))"
)
_STATUS: Final = "request.?subResource.orValue('') == 'status'"
_OURS: Final = f"check.name == '{names.ADMISSION_CHECK}'"
_CHECKS: Final = "variables.{of}.?admissionChecks.orValue([])"
_OWN_KEY: Final = f"key.startsWith('{names.GROUP}/')"


def workloads(stack: Stack) -> Policy:
    """A stack that steers changes the affinity of a Workload's PodSets, by which Kueue chooses flavors."""
    return fence(
        "muster-controller",
        purpose="The controller answers its own admission check.",
        kinds=(
            Kinds(
                group="kueue.x-k8s.io", resources=("workloads", "workloads/status"), operations=("UPDATE",)
            ),
        ),
        besides=RECORDER if stack.recording.forecasts else "",
        words=(
            ("status", "object.?status.orValue(dyn({}))"),
            ("statusBefore", "oldObject.?status.orValue(dyn({}))"),
        ),
        rules=(
            *(_checks(), _updates(stack), _rest(), _spec(steers=gang.steers(stack))),
            *(_metadata(), _concerned(forecasts=stack.recording.forecasts)),
        ),
    )


def _checks() -> Rule:
    others = _CHECKS + f".filter(check, !({_OURS}))"
    return Rule(
        holds=f"{others.format(of='status')} == {others.format(of='statusBefore')}",
        message=f"'this account answers for admission check {names.ADMISSION_CHECK} alone; leave the others'",
    )


def _updates(stack: Stack) -> Rule:
    """Kueue writes them into the pods of the job."""
    is_placed = bool(stack.placeholder_pools)
    # On nodes that another gang has left, no request is consumed.
    takes = any(pool.provisioning_class == names.GKE_QUEUED_CLASS for pool in stack.queued_pools)
    keys = (
        *names.CLAIM_ANNOTATIONS,
        *((names.PLACED_ANNOTATION,) if is_placed or takes else ()),
        *(names.UNDISTURBED if is_placed else ()),
    )
    of_ours = f".all(each, each.?key.orValue('') == '{names.HELD_TAINT_KEY}')"
    plain = (
        f"update.?labels.orValue({{}}).size() == 0 && "
        f"update.?tolerations.orValue([]){of_ours if is_placed else '.size() == 0'} && "
        f"update.?annotations.orValue({{}}).all(key, key in {quoted(keys)})"
    )
    taint = f", tolerations of {names.HELD_TAINT_KEY}" if is_placed else ""
    return Rule(
        holds=f"{_CHECKS.format(of='status')}.filter(check, {_OURS}).all(check, "
        f"check.?podSetUpdates.orValue([]).all(update, {plain}))",
        message=f"'podSetUpdates of this account have node selectors{taint} and the annotations "
        f"{', '.join(keys)}, nothing else'",
    )


def _rest() -> Rule:
    return Rule(
        holds=same_but("variables.status", "variables.statusBefore", free="key == 'admissionChecks'"),
        message="'this account writes status.admissionChecks of a Workload and nothing else of its status'",
    )


def _spec(*, steers: bool) -> Rule:
    also = " and the affinity of its podSets" if steers else ""
    free = "(key == 'active'" + (f" || (key == 'podSets' && {_STEERED})" if steers else "") + ")"
    return Rule(
        holds=f"{_STATUS} || ({same_but('object.spec', 'oldObject.spec', free=free)})",
        message=f"'this account writes spec.active of a Workload{also} and nothing else of its spec'",
    )


def _metadata() -> Rule:
    return Rule(
        holds=same_metadata("object", "oldObject", free=_OWN_KEY),
        message=f"'this account writes annotations of a Workload that begin with {names.GROUP}/ and nothing "
        "else of its metadata'",
    )


def _concerned(*, forecasts: bool) -> Rule:
    """One that is outside of the quota has lost our check and has our annotations. A forecast is on any."""
    has_check = _CHECKS.format(of="statusBefore") + f".exists(check, {_OURS})"
    is_ours = f"{_OWN_KEY} && key != '{names.FORECAST_ANNOTATION}'" if forecasts else _OWN_KEY
    return Rule(
        holds=f"{has_check} || {annotations_of('oldObject')}.exists(key, {is_ours})",
        message=f"'this account writes Workloads that have admission check {names.ADMISSION_CHECK}'",
    )
