"""Work that asks for a topology which the stack does not have: no scheduler ever places it.

Source: https://github.com/kubernetes-sigs/kueue at v0.19.2, pkg/scheduler/flavorassigner ("does not support
TopologyAwareScheduling") and apis/kueue/v1beta2/topology_types.go, read 2026-11-27.
"""

from collections.abc import Sequence
from typing import Final

from muster.model.stack import Scheduler, Stack
from muster.render.tenancy.policies import pod_templates
from muster.render.tenancy.policies.policy import Policy, Rule
from muster.render.tenancy.policies.who import SYSTEM, quoted

_KUEUE: Final = "kueue.x-k8s.io/podset-"
_KUEUE_LEVELS: Final = tuple(
    f"{_KUEUE}{each}-topology" for each in ("required", "preferred", "slice-required")
)
_UNCONSTRAINED: Final = f"{_KUEUE}unconstrained-topology"
_KAI: Final = "kai.scheduler/topology"
_KAI_LEVELS: Final = tuple(f"{_KAI}-{each}-placement" for each in ("required", "preferred"))


def topologies(stack: Stack) -> Policy:
    """The annotations of a job count for KAI, those of its pods for both."""
    is_kai = stack.scheduler is Scheduler.KAI
    levels = _levels_of_kai(stack) if is_kai else _levels_of_kueue(stack)
    keys = _KAI_LEVELS if is_kai else _KUEUE_LEVELS
    by_name = {_KAI: [each.name for each in stack.kai.topologies]} if is_kai else {}
    allowed = {**dict.fromkeys(keys, levels), **by_name}
    if not is_kai and not levels:
        allowed[_UNCONSTRAINED] = []
    table = ", ".join(f"'{key}': dyn({quoted(values)})" for key, values in allowed.items())
    words = [pod_templates.JOB_PATH, ("clusterPath", pod_templates.CLUSTER_PATH), pod_templates.BEFORE]
    for when, of in (("Before", "variables.before"), ("", "object")):
        words += pod_templates.words(when, of)
        notes = f"variables.templates{when}.map(each, each.?metadata.?annotations.orValue(dyn({{}})))"
        own = f"[variables.job{when}.?metadata.?annotations.orValue(dyn({{}}))] + " if is_kai else ""
        words.append((f"notes{when}", f"{own}{notes}"))
    wrong = (
        "variables.notes.map(each, each.filter(key, key in variables.allowed && "
        "!(each[key] in variables.allowed[key]) && "
        "!variables.notesBefore.exists(old, key in old && old[key] == each[key]))"
        ".map(key, key + ': ' + each[key])).filter(each, each.size() > 0).map(each, each.join(', '))"
    )
    there_are = ", ".join(dict.fromkeys([*(name for names in by_name.values() for name in names), *levels]))
    has = f"has {there_are}" if there_are else "has none for its pools"
    return Policy(
        name="muster-topologies",
        purpose="Work that asks for a topology which no pool has would wait forever.",
        kinds=pod_templates.KINDS,
        unless=(("the-system", SYSTEM),),
        words=(*words, ("allowed", f"{{{table}}}"), ("wrong", wrong)),
        rules=(
            Rule(
                holds="variables.wrong.size() == 0",
                message="object.kind + ' ' + object.metadata.?name.orValue('(unnamed)') + ' would never run: "
                f"it asks for a topology that the stack does not have (it {has}); remove or correct the "
                "annotation ' + variables.wrong.join(', ')",
            ),
        ),
    )


def _levels_of_kueue(stack: Stack) -> Sequence[str]:
    used = {pool.kueue.topology for pool in stack.pools} | {each.topology for each in stack.kueue.flavors}
    return [level for each in stack.kueue.topologies if each.name in used for level in each.levels]


def _levels_of_kai(stack: Stack) -> Sequence[str]:
    """A level has its label, and maybe a name in its place."""
    levels = [level for each in stack.kai.topologies for level in each.levels]
    return [word for level in levels for word in (level.node_label, level.alias) if word]
