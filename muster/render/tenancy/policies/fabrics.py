"""A warning for jobs whose nodes would talk to each other more slowly than their machines could.

Responsible for groups of pods that need several nodes of a pool with a network between GPUs of its own, and
do not get that network: the pool is not set up for it, or the pods do not request it. Never refuses: such a
job runs. The API server does not know in which pools the team has quota, so a group that names no pool is
warned of only where every pool with room for its pods is so.
"""

import json
from typing import Final

from muster.model import names
from muster.model.fabrics import missing_for
from muster.model.pools import Pool
from muster.model.stack import Stack
from muster.render.tenancy.policies import pod_templates
from muster.render.tenancy.policies.policy import Kinds, Policy, Rule
from muster.render.tenancy.policies.who import MADE_FOR_WORK, SYSTEM

NAME: Final = "muster-fabric"
_KINDS: Final = tuple(
    Kinds(group=kinds.group, resources=kinds.resources, operations=("CREATE",))
    for kinds in pod_templates.KINDS
)
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
    "variables.groups.filter(group, group.gpus.size() > 0 && "
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
        kinds=_KINDS,
        unless=(("made-for-work", MADE_FOR_WORK), ("made-by-the-system", SYSTEM)),
        words=(
            pod_templates.JOB_PATH,
            ("clusterPath", pod_templates.CLUSTER_PATH),
            *pod_templates.words("", "object"),
            ("pools", f"[{', '.join(_pool(pool) for pool in pools)}]"),
            ("groups", _groups()),
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


def _groups() -> str:
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
