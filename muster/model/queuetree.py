"""QueueTree: the queues as the webhooks need them, in one versioned object of the cluster.

A webhook cannot query the cluster while it answers, and a scheduler's own objects do not contain which
namespace may use what. The Pulumi program writes this object, and the webhook server caches it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Final

from muster.model import crds
from muster.model.names import API_VERSION, GPU_RESOURCE, QUEUE_TREE, QUEUE_TREE_KIND, QUEUE_TREE_PLURAL
from muster.model.pods import Amounts
from muster.model.quantities import parse_quantity

# The custom resource definition of QueueTree.
# Lists are atomic: there is one writer, and field ownership for each of a thousand teams would be larger
# than the teams.

Schema = dict[str, Any]


def crd() -> Schema:
    return crds.cluster_scoped(
        QUEUE_TREE_KIND,
        QUEUE_TREE_PLURAL,
        "What each team's namespace may name as its queue and priority.",
        spec=_spec(),
    )


def _spec() -> Schema:
    flags = {
        "kai": "KAI schedules, not Kueue.",
        "gated": "GPU pods wait behind a gate.",
        "guarded": "Ray clusters need a token.",
    }
    switches = {name: {"type": "boolean", "description": text} for name, text in flags.items()}
    prefix = {"type": "string", "maxLength": 317}
    return {
        "type": "object",
        "description": "Written by the program, from the departments and the pools.",
        "properties": {
            **switches,
            "uncounted": _atomic(prefix, "Prefixes of resources that no queue counts."),
            "namespaces": _atomic(_crd_space(), "The namespaces of teams."),
        },
    }


def _crd_space() -> Schema:
    name = {"type": "string", "minLength": 1, "maxLength": 253}
    amounts = {"type": "object", "additionalProperties": {"type": "string", "maxLength": 40}}
    limits = {"type": "object", "additionalProperties": amounts}
    fields = {
        "name": {**name, "description": "The name that work uses."},
        "most": {
            "type": "object",
            "additionalProperties": {"type": "integer", "minimum": 0},
            "description": "Most GPUs that its work can hold at a time, by pool; `*`: over all pools.",
        },
        "limits": _atomic(limits, "The same for other resources: one entry a resource group, by pool."),
        "pool": {**name, "description": "Its one pool; absent where it may use any."},
        "gpus": {"type": "integer", "minimum": 0, "description": "GPUs of one node of its pool."},
    }
    queue = {"type": "object", "required": ["name"], "properties": fields}
    return {
        "type": "object",
        "required": ["namespace", "team", "queues"],
        "properties": {
            "namespace": {**name, "description": "Name of the namespace."},
            "team": {**name, "description": "The team that owns it."},
            "queues": _atomic(queue, "The queues that its work may name."),
            "priorities": _atomic(name, "The priorities that its work may name, the highest first."),
            "defaultPriority": {**name, "description": "The priority of work that names none."},
        },
    }


def _atomic(items: Schema, description: str) -> Schema:
    return {"type": "array", "description": description, "items": items, "x-kubernetes-list-type": "atomic"}


Limits = Mapping[str, Mapping[str, str]]

# The key of `Queue.most` for a queue that counts its GPUs over all pools together, as KAI's do.
ANY_POOL: Final = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """`name` is the name that work uses. `most` is an upper bound of the GPUs of each pool that work of the
    queue can hold at a time, borrowed ones included. A missing pool means none of its GPUs; without any pool
    the bound is unknown.

    `limits` bound what is no GPU in the same way: one mapping a resource group, of pool or flavor -> resource
    -> quantity. The groups together name every resource that the queue has a quota of; empty: unknown.

    `pool` is the queue's one pool, empty for a queue of any pool; `gpus` are those of one of its nodes, as
    pods request them.
    """

    name: str
    pool: str = ""
    gpus: int = 0
    most: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    limits: tuple[Limits, ...] = ()

    @property
    def groups(self) -> tuple[Mapping[str, Amounts], ...]:
        """The upper bounds of all resources, by group and pool. GPUs are in the first group."""
        first, *others = self.limits or ({},)
        pools = {**dict.fromkeys(first), **dict.fromkeys(self.most)}
        bounds = {pool: _amounts(first.get(pool, {})) for pool in pools}
        for pool, gpus in self.most.items():
            bounds[pool][GPU_RESOURCE] = Fraction(gpus)
        return (bounds, *({pool: _amounts(each) for pool, each in group.items()} for group in others))


def _amounts(quantities: Mapping[str, str]) -> dict[str, Fraction]:
    return {name: parse_quantity(amount) for name, amount in quantities.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """A team's namespace: the queues and priorities that its work may name."""

    team: str
    queues: tuple[Queue, ...] = ()
    priorities: tuple[str, ...] = ()
    default_priority: str | None = None

    def queue(self, name: str) -> Queue | None:
        return next((queue for queue in self.queues if queue.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTree:
    """`kai`: KAI schedules, not Kueue. `gated`: GPU pods of gangs are created with our gate. `guarded`: Ray
    clusters have to require their token. `uncounted`: prefixes of the resources that no queue counts.
    """

    kai: bool = False
    gated: bool = False
    guarded: bool = False
    uncounted: tuple[str, ...] = ()
    spaces: Mapping[str, Space] = field(default_factory=lambda: MappingProxyType({}))


# Reads the queue tree from an object's spec.
# The API server has validated it against its definition. Anything else in it is ignored, not an error: a
# webhook with less information admits more, and the policies still apply.


def from_spec(spec: Mapping[str, object]) -> QueueTree:
    spaces = {str(each.get("namespace", "")): _tree_space(each) for each in _mappings(spec.get("namespaces"))}
    return QueueTree(
        kai=spec.get("kai") is True,
        gated=spec.get("gated") is True,
        guarded=spec.get("guarded") is True,
        uncounted=tuple(str(each) for each in _list(spec.get("uncounted"))),
        spaces=MappingProxyType(spaces),
    )


def _tree_space(spec: Mapping[str, object]) -> Space:
    priority = spec.get("defaultPriority")
    return Space(
        team=str(spec.get("team", "")),
        queues=tuple(_tree_queue(each) for each in _mappings(spec.get("queues"))),
        priorities=tuple(str(each) for each in _list(spec.get("priorities"))),
        default_priority=priority if isinstance(priority, str) and priority else None,
    )


def _tree_queue(spec: Mapping[str, object]) -> Queue:
    most = spec.get("most")
    counts = most.items() if isinstance(most, Mapping) else ()
    known = {str(pool): count for pool, count in counts if isinstance(count, int)}
    gpus = spec.get("gpus")
    return Queue(
        name=str(spec.get("name", "")),
        pool=str(spec.get("pool", "")),
        gpus=gpus if isinstance(gpus, int) else 0,
        most=MappingProxyType(known),
        limits=tuple(_limits(each) for each in _mappings(spec.get("limits"))),
    )


def _limits(group: Mapping[str, object]) -> Limits:
    return {
        pool: {str(name): str(amount) for name, amount in amounts.items()}
        for pool, amounts in group.items()
        if isinstance(amounts, Mapping)
    }


def _mappings(value: object) -> Iterator[Mapping[str, object]]:
    for each in _list(value):
        if isinstance(each, Mapping):
            yield each


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


# The queue tree as an object of the cluster.

Manifest = dict[str, Any]


def to_manifest(tree: QueueTree) -> Manifest:
    return {
        "apiVersion": API_VERSION,
        "kind": QUEUE_TREE_KIND,
        "metadata": {"name": QUEUE_TREE},
        "spec": {
            "kai": tree.kai,
            "gated": tree.gated,
            "guarded": tree.guarded,
            "uncounted": list(tree.uncounted),
            "namespaces": [_space(name, space) for name, space in sorted(tree.spaces.items())],
        },
    }


def _space(namespace: str, space: Space) -> Manifest:
    found: Manifest = {
        "namespace": namespace,
        "team": space.team,
        "queues": [_queue(queue) for queue in space.queues],
        "priorities": list(space.priorities),
    }
    if space.default_priority is not None:
        found["defaultPriority"] = space.default_priority
    return found


def _queue(queue: Queue) -> Manifest:
    found: Manifest = {"name": queue.name, "most": dict(sorted(queue.most.items()))}
    if queue.limits:
        found["limits"] = [{pool: dict(each) for pool, each in group.items()} for group in queue.limits]
    return {**found, "pool": queue.pool, "gpus": queue.gpus} if queue.pool else found
