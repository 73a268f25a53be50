"""The stack as objects of the KAI Scheduler 0.17.

    priority_classes(stack)  PriorityClass of every priority, and those that KAI itself falls back to
    topologies(stack)        Topology objects
    shards(stack)            SchedulingShard of every partition: the settings of its scheduler
    cluster_objects(stack)   Topologies and SchedulingShards
    queues(stack)            every Queue, parents first
    team_objects(stack, t)   Namespace and Queues of one team
    by_department(stack)     department -> team (or "" for its own Queues) -> objects
    names_by_team(stack)     team -> its Queue, or pool -> its Queue where each pool has its own
    queues_of_teams(stack)   team -> the same, with what each can hold
    leaf_queues(stack)       team -> pool -> the Queue that its work names
    chart_values(stack, ...) the values of KAI's own chart

Objects are in the order in which they can be applied. The order depends on the stack alone, not on the order
of keys in its file. Every figure of a Queue is written, because KAI reads a missing one as zero.
"""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from math import ceil
from typing import Any, Final

from muster.model import names
from muster.model.clusters import Provider
from muster.model.kai import Figure, Sharding, Unlimited, is_preemptible
from muster.model.kai.tree import RESOURCES, Figures, Node, Partition, nodes, partitions, sharding
from muster.model.priorities import Priority
from muster.model.programs import mirrored
from muster.model.quantities import Quantity
from muster.model.queues import Team
from muster.model.queuetree import ANY_POOL, Queue
from muster.model.stack import Stack
from muster.model.tenancy import Namespaces
from muster.render import tenancy
from muster.render.manifest import Manifest, manifest

# Topology objects of the stack.


def topologies(stack: Stack) -> list[Manifest]:
    return [
        manifest(names.KAI_TOPOLOGY_API_VERSION, "Topology", topology.name, spec=topology.spec.written())
        for topology in sorted(stack.kai.topologies, key=lambda topology: topology.name)
    ]


# KAI's default, written so that a preview shows it.
_PLACEMENT: Final = {"gpu": "binpack", "cpu": "binpack"}


def shards(stack: Stack) -> list[Manifest]:
    return [
        manifest(names.KAI_SHARD_API_VERSION, "SchedulingShard", partition.name, spec=_spec(stack, partition))
        for partition in partitions(stack)
    ]


def _spec(stack: Stack, partition: Partition) -> Manifest:
    settings = stack.kai.pools.get(partition.pool or "", stack.kai.shard)
    # Without a value a shard has the nodes, queues and gangs that carry no pool's label.
    value = {} if partition.pool is None else {"partitionLabelValue": partition.pool}
    placement = _PLACEMENT | settings.get("placementStrategy", {})
    return {**value, **settings.written(), "placementStrategy": placement}


# The values of KAI's chart.
# The chart itself renders every object (`kaiConfig.render`), so that installing needs no hook: none to
# write its Config, none to copy Kueue's topologies, and none to clean up, which ignores tolerations and
# hangs where all nodes have taints (NVIDIA's own recipes switch it off for that reason). The remaining hook
# updates CRDs when the chart's version changes. Queues, shards and priority classes are not in the chart.
# Compared with the values of chart 0.17.0.

REGISTRY: Final = "ghcr.io/kai-scheduler/kai-scheduler"
# The GPU Operator's runtime class; where GKE installs the driver itself there is none.
_RUNTIME_CLASS: Final = "nvidia"


def chart_values(stack: Stack, *, node_selector: Mapping[str, str], replicas: int) -> Mapping[str, Any]:
    """`replicas` of each of KAI's programs; from two on one leads."""
    off = {"enabled": False}
    return {
        "global": {
            "registry": mirrored(REGISTRY, stack.images.mirror) if stack.images.mirror else REGISTRY,
            "gpuSharing": stack.kai.gpu_sharing,
            "clusterAutoscaling": stack.kai.cluster_autoscaling,
            "leaderElection": replicas > 1,
            "nodeSelector": dict(node_selector),
            # The label that assigns nodes, queues and gangs to one of several shards.
            "nodePoolLabelKey": names.POOL_LABEL if sharding(stack) is Sharding.PER_POOL else "",
        },
        "operator": {"replicaCount": replicas},
        "podgrouper": {"queueLabelKey": names.KAI_QUEUE_LABEL},
        "admission": {"gpuFractionRuntimeClassName": runtime_class(stack)},
        "kaiConfig": {"render": True},
        "kaiConfigDeployer": off,
        "topologyMigration": off,
        "postCleanup": off,
        "defaultShard": off,
        "defaultPriorityClasses": off,
        "defaultQueue": {"createDefaultQueue": False},
    }


def runtime_class(stack: Stack) -> str:
    """For pods with GPUs; empty where there is none."""
    return "" if stack.cluster.provider is Provider.GKE else _RUNTIME_CLASS


# The objects that KAI's Queues refer to.


def cluster_objects(stack: Stack) -> list[Manifest]:
    """In the order in which they can be applied."""
    return [*topologies(stack), *shards(stack)]


# PriorityClass of every priority, with the values of the stack.
# Work without a class gets one of KAI's own by its kind, so those four always exist. A stack may change their
# values.


def priority_classes(stack: Stack) -> list[Manifest]:
    return [
        manifest(
            "scheduling.k8s.io/v1",
            "PriorityClass",
            priority.name,
            value=priority.value,
            preemptionPolicy="PreemptLowerPriority",
            description=_description(priority),
        )
        for priority in stack.all_priorities
    ]


def _description(priority: Priority) -> str:
    if priority.description:
        return priority.description
    bounds = (
        "may go over quota, and then be reclaimed"
        if is_preemptible(priority)
        else "never preempted, never over quota"
    )
    return f"Priority {priority.name} ({priority.value}): {bounds}."


# KAI counts memory in these.
_MEGABYTE: Final = 10**6

Tree = dict[str, dict[str, list[Manifest]]]


def queues(stack: Stack) -> list[Manifest]:
    """Every Queue, each behind its parent."""
    return [_queue(node) for node in nodes(stack)]


def team_objects(stack: Stack, team: Team) -> list[Manifest]:
    """Everything that one team owns, in the order in which it can be created."""
    department = next(chain[-1] for chain, member in stack.teams() if member.name == team.name)
    return by_department(stack)[department.name][team.name]


def leaf_queues(stack: Stack) -> dict[str, dict[str | None, str]]:
    """team -> pool of the work -> the Queue that the work names. The pool None: any pool of the stack."""
    found: dict[str, dict[str | None, str]] = {team.name: {} for _, team in stack.teams()}
    for node in nodes(stack):
        if node.team is not None:
            found[node.team.name][node.part.pool] = node.name
    for owner, members in stack.queue_members().items():
        found |= dict.fromkeys((team.name for team in members), found[owner])
    return found


def names_by_team(stack: Stack) -> dict[str, str | dict[str, str]]:
    """team -> its Queue, or pool -> its Queue where each pool has its own."""
    found: dict[str, str | dict[str, str]] = {}
    for team, leaves in leaf_queues(stack).items():
        by_pool = {pool: queue for pool, queue in leaves.items() if pool is not None}
        found[team] = leaves.get(None, by_pool)
    return found


def queues_of_teams(stack: Stack) -> dict[str, tuple[Queue, ...]]:
    """team -> KAI's leaves of it: one, or one of each pool."""
    gpus = {pool.name: pool.slots_per_node for pool in stack.pools}
    queues = {node.name: node for node in nodes(stack)}
    bounds = {name: _bounds(node, queues) for name, node in queues.items() if node.team is not None}
    return {
        team: tuple(
            replace(bounds[name], pool=pool or "", gpus=gpus[pool] if pool else 0)
            for pool, name in leaves.items()
        )
        for team, leaves in leaf_queues(stack).items()
    }


def _bounds(node: Node, queues: Mapping[str, Node]) -> Queue:
    """Over all pools: the least limit from the queue to the top. A resource without a limit has no bound."""
    chain = [node]
    while (parent := chain[-1].parent) is not None:
        chain.append(queues[parent])
    least = {}
    for key in RESOURCES:
        limits = [each.figures[key].limit for each in chain]
        if bounded := [each for each in limits if not isinstance(each, Unlimited)]:
            least[key] = min(bounded)
    gpus = least.pop("gpu", None)
    more = {key: str(Quantity(_in_kai_units(key, limit))) for key, limit in least.items()}
    most = {} if gpus is None else {ANY_POOL: ceil(Fraction(gpus, 1000))}
    return Queue(name=node.name, most=most, limits=({ANY_POOL: more},) if more else ())


def _in_kai_units(key: str, limit: int) -> Fraction:
    """KAI counts thousandths of a CPU and millions of bytes."""
    return Fraction(limit, 1000) if key == "cpu" else Fraction(limit // _MEGABYTE * _MEGABYTE)


def by_department(stack: Stack) -> Tree:
    """department -> team -> objects, parents first; a department's own Queues are under the team ""."""
    found: Tree = {department.name: {"": []} for _, department in stack.walk()}
    leaves = leaf_queues(stack)
    is_managed = stack.tenancy.namespaces is Namespaces.MANAGED
    for chain, team in stack.teams():
        queues = tuple(leaves[team.name].values())
        found[chain[-1].name][team.name] = (
            tenancy.team_objects(stack, chain[-1], team, queues=queues) if is_managed else []
        )
    for node in nodes(stack):
        found[node.above[-1].name][node.team.name if node.team else ""].append(_queue(node))
    return found


def _queue(node: Node) -> Manifest:
    settings = node.owner.kai
    spec: Manifest = {
        "displayName": node.owner.name,
        **({} if node.parent is None else {"parentQueue": node.parent}),
        "priority": settings.priority,
        **settings.spec.written(),
        "resources": {key: _share(key, node.figures[key]) for key in RESOURCES},
    }
    return manifest(names.KAI_QUEUE_API_VERSION, "Queue", node.name, labels=_labels(node), spec=spec)


def _labels(node: Node) -> dict[str, str]:
    """A shard sees the queues that carry its pool."""
    labels = {names.DEPARTMENT_LABEL: node.above[-1].name}
    if node.team is not None:
        labels[names.TEAM_LABEL] = node.team.name
    if node.part.pool is not None:
        labels[names.POOL_LABEL] = node.part.pool
    return labels


def _share(key: str, figures: Figures) -> Manifest:
    return {
        "quota": number(key, figures.quota),
        "limit": number(key, figures.limit),
        "overQuotaWeight": figures.weight,
    }


def number(key: str, figure: Figure[int]) -> int | float:
    """In KAI's units: GPUs, thousandths of a CPU, millions of bytes; -1 without bound."""
    if isinstance(figure, Unlimited):
        return -1
    if key == "memory":
        return figure // _MEGABYTE
    if key == "gpu":
        return figure / 1000 if figure % 1000 else figure // 1000
    return figure
