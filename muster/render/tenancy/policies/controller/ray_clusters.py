"""RayClusters. Of elastic gangs of Kueue claims come off the pod templates, those of KAI keep the history of
their pods in annotations of ours, and nothing else changes.

Who may patch a RayCluster may run any image in its pods.
"""

from typing import Final

from muster.model import names
from muster.model.stack import Scheduler, Stack
from muster.render import gang
from muster.render.tenancy.policies.controller.fence import fence
from muster.render.tenancy.policies.policy import Kinds, Policy, Rule, same_but, same_metadata
from muster.render.tenancy.policies.who import quoted

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
        rules=(_rest(), _templates(stack)),
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


def _rest() -> Rule:
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
