"""Topologies, networks between nodes, node labels and parts of GPUs: whether work is placed as it asks."""

import json
from collections.abc import Sequence
from typing import Final

from muster.model import names
from muster.model.node_labels import compared_labels, flavor_labels
from muster.model.pools import Pool, missing_for
from muster.model.stack import Scheduler, Stack
from muster.model.work import WORK
from muster.render.tenancy.policies.files import policy
from muster.render.tenancy.policies.policy import Policy, kinds_of, quoted

FABRIC: Final = "muster-fabric"
_KUEUE: Final = "kueue.x-k8s.io/podset-"
_KUEUE_LEVELS: Final = tuple(
    f"{_KUEUE}{each}-topology" for each in ("required", "preferred", "slice-required")
)
_UNCONSTRAINED: Final = f"{_KUEUE}unconstrained-topology"
_KAI: Final = "kai.scheduler/topology"
_KAI_LEVELS: Final = tuple(f"{_KAI}-{each}-placement" for each in ("required", "preferred"))


def topologies(stack: Stack) -> Policy:
    is_kai = stack.scheduler is Scheduler.KAI
    levels = _levels_of_kai(stack) if is_kai else _levels_of_kueue(stack)
    keys = _KAI_LEVELS if is_kai else _KUEUE_LEVELS
    by_name = {_KAI: [each.name for each in stack.kai.topologies]} if is_kai else {}
    allowed = {**dict.fromkeys(keys, levels), **by_name}
    if not is_kai and not levels:
        allowed[_UNCONSTRAINED] = []
    there_are = ", ".join(dict.fromkeys([*(name for names in by_name.values() for name in names), *levels]))
    return policy(
        "muster-topologies",
        kinds={"work": kinds_of(stack.judged_work)},
        values={
            "ownNotes": "variables.ownNotes${when}" if is_kai else "[]",
            "allowed": ", ".join(f"'{key}': dyn({quoted(values)})" for key, values in allowed.items()),
            "keys": list(allowed),
            "has": f"has {there_are}" if there_are else "has none for its pools",
        },
    )


def _levels_of_kueue(stack: Stack) -> Sequence[str]:
    used = {pool.kueue.topology for pool in stack.pools} | {each.topology for each in stack.kueue.flavors}
    return [level for each in stack.kueue.topologies if each.name in used for level in each.levels]


def _levels_of_kai(stack: Stack) -> Sequence[str]:
    """A level has its label, and maybe a name in its place."""
    levels = [level for each in stack.kai.topologies for level in each.levels]
    return [word for level in levels for word in (level.node_label, level.alias) if word]


def fabrics(stack: Stack) -> Policy | None:
    """None where no pool has such a network, so that nothing can be missing."""
    pools = [pool for pool in stack.pools if pool.is_gpu and pool.gpus_per_node]
    if not any(missing_for(pool, {}) for pool in pools):
        return None
    work = kinds_of(stack.judged_work, operations=("CREATE",))
    return policy(FABRIC, kinds={"work": work}, values={"pools": ", ".join(map(_pool, pools))})


def _pool(pool: Pool) -> str:
    unless = names.EFA_RESOURCE if pool.efa else ""
    return (
        f"{{'name': dyn('{pool.name}'), 'gpus': dyn({pool.gpus_per_node}), "
        f"'missing': dyn({json.dumps(missing_for(pool, {}))}), 'unless': dyn('{unless}')}}"
    )


# What every node has, with a value that no pool decides; the last one on GKE, where pools have
# Workload Identity.
_OF_EVERY_NODE: Final = (
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
    "topology.kubernetes.io/region",
    "iam.gke.io/gke-metadata-server-enabled",
)


def node_labels(stack: Stack) -> Policy:
    listed = flavor_labels(stack).values()
    compared = compared_labels(stack)
    exempt = (f"key.startsWith('{each}')" for each in compared if each.endswith("/"))
    return policy(
        "muster-node-labels",
        kinds={"work": kinds_of(stack.judged_work, operations=("CREATE",))},
        values={
            "ofEveryNode": list(_OF_EVERY_NODE),
            "compared": sorted({names.ZONE_LABEL, *(key for labels in listed for key in labels), *compared}),
            "isExempt": " ||\n".join(exempt) or "false",
        },
    )


def kai_sharing() -> Policy:
    ray = kinds_of(each for each in WORK if each.is_ray)
    return policy("muster-kai-sharing", kinds={"rayKinds": ray}, values={"parts": ", ".join(names.GPU_PARTS)})
