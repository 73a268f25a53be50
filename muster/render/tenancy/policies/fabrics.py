"""A warning for jobs whose nodes would talk to each other more slowly than their machines could.

Responsible for groups of pods that need several nodes of a pool with a network between GPUs of its own, and
do not get that network: the pool is not set up for it, or the pods do not request it. Never refuses: such a
job runs. The API server does not know in which pools the team has quota, so a group that names no pool is
warned of only where every pool with room for its pods is so.
"""

import json
from collections.abc import Sequence
from typing import Final

from muster.model import names
from muster.model.pools import Pool, missing_for
from muster.model.stack import Scheduler, Stack
from muster.render.tenancy.policies import pod_templates
from muster.render.tenancy.policies.policy import MADE_FOR_WORK, SYSTEM, Policy, Rule, kinds_of, quoted

# Work that asks for a topology which the stack does not have: no scheduler ever places it.
# Source: https://github.com/kubernetes-sigs/kueue at v0.19.2, pkg/scheduler/flavorassigner ("does not support
# TopologyAwareScheduling") and apis/kueue/v1beta2/topology_types.go, read 2026-11-27.

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
        # Not the object's own map: an API server walks one in any order, and the message would follow.
        f"variables.notes.map(each, {quoted(list(allowed))}.filter(key, key in each && "
        "!(each[key] in variables.allowed[key]) && "
        "!variables.notesBefore.exists(old, key in old && old[key] == each[key]))"
        ".map(key, key + ': ' + each[key])).filter(each, each.size() > 0).map(each, each.join(', '))"
    )
    there_are = ", ".join(dict.fromkeys([*(name for names in by_name.values() for name in names), *levels]))
    has = f"has {there_are}" if there_are else "has none for its pools"
    return Policy(
        name="muster-topologies",
        purpose="Work that asks for a topology which no pool has would wait forever.",
        kinds=kinds_of(stack.judged_work),
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


NAME: Final = "muster-fabric"
_LIMITED: Final = "{container}.?resources.?limits[?'{name}'].or({container}.?resources.?requests[?'{name}'])"
# A quantity is a number or a string; that of a GPU is whole. The API server converts no string to a string.
_GPUS: Final = (
    f".map(each, dyn({_LIMITED.format(container='each', name=names.GPU_RESOURCE)}.orValue(0)))"
    ".map(gpus, type(gpus) == int ? gpus : dyn(int(gpus))).filter(gpus, gpus > 0)"
)
_ASKS: Final = (
    "(pool.unless != '' && group.containers.exists(each, "
    "each.?resources.?limits.orValue(dyn({})).exists(name, name == pool.unless)))"
)
_FITS: Final = "((group.pool == '' || group.pool == pool.name) && group.gpus.all(gpus, gpus <= pool.gpus))"
_IS_SLOW: Final = (
    f"(pool.missing != '' && group.gpus.exists(gpus, group.pods * gpus > pool.gpus) && !{_ASKS})"
)
_SLOW: Final = (
    "variables.shapes.filter(group, group.gpus.size() > 0 && "
    f"variables.pools.exists(pool, {_FITS}) && variables.pools.all(pool, !{_FITS} || {_IS_SLOW}))"
)


def fabrics(stack: Stack) -> Policy | None:
    """None where no pool has such a network, so that nothing can be missing."""
    pools = [pool for pool in stack.pools if pool.is_gpu and pool.gpus_per_node]
    if not any(missing_for(pool, {}) for pool in pools):
        return None
    return Policy(
        name=NAME,
        purpose=(
            "Without their fast network the nodes of a job talk to each other more slowly than they "
            "could. A warning: the job runs."
        ),
        kinds=kinds_of(stack.judged_work, operations=("CREATE",)),
        unless=(("made-for-work", MADE_FOR_WORK), ("made-by-the-system", SYSTEM)),
        words=(
            pod_templates.JOB_PATH,
            ("clusterPath", pod_templates.CLUSTER_PATH),
            *pod_templates.words("", "object"),
            ("pools", f"[{', '.join(_pool(pool) for pool in pools)}]"),
            ("shapes", _shapes()),
            ("slow", _SLOW),
        ),
        rules=(
            Rule(
                holds="variables.slow.size() == 0",
                message="object.kind + ' ' + object.metadata.?name.orValue('(unnamed)') + ' takes several "
                "nodes, which would talk over their first network card: ' + "
                "variables.slow.map(group, group.name + ' on pool ' + "
                f"variables.pools.filter(pool, {_FITS}).map(pool, pool.name + ': ' + pool.missing)[0])"
                ".join('; also: ')",
            ),
        ),
    )


def _pool(pool: Pool) -> str:
    """`missing`: what a job lacks there, empty for nothing, unless it requests the resource `unless`."""
    unless = names.EFA_RESOURCE if pool.efa else ""
    return (
        f"{{'name': dyn('{pool.name}'), 'gpus': dyn({pool.gpus_per_node}), "
        f"'missing': dyn({json.dumps(missing_for(pool, {}))}), 'unless': dyn('{unless}')}}"
    )


def _shapes() -> str:
    """Groups of pods that start together, with the whole GPUs that each of their containers asks for."""
    cluster = "variables.cluster"
    head = _group("'head'", "1", f"{cluster}.headGroupSpec.template")
    workers = _group(
        "group.?groupName.orValue('')",
        "group.?replicas.orValue(0) * group.?numOfHosts.orValue(1)",
        "group.template",
    )
    job = _group("'job'", "variables.job.spec.?parallelism.orValue(1)", "variables.job.spec.template")
    return (
        f"({cluster}.?headGroupSpec.?template.hasValue() ? [{head}] : []) + "
        f"{cluster}.?workerGroupSpecs.orValue([]).filter(group, has(group.template)).map(group, {workers}) + "
        f"(request.resource.group == 'batch' ? [{job}] : [])"
    )


def _group(name: str, pods: str, template: str) -> str:
    containers = f"{template}.spec.?containers.orValue([])"
    pool = f"{template}.spec.?nodeSelector[?'{names.POOL_LABEL}'].orValue('')"
    return (
        f"{{'name': dyn({name}), 'pods': dyn({pods}), 'pool': dyn({pool}), 'containers': dyn({containers}), "
        f"'gpus': dyn({containers}{_GPUS})}}"
    )
