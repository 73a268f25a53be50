"""The nodes on which KAI places pods: those of the snapshot, and those that the stack's pools may still add.

Whether a cloud has capacity cannot be known, so every pool counts as it is at its largest, and no node is
held for one gang any more. A node that does not exist yet is like one of its pool, or where there is none,
like the machine that the stack names.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from muster.live.snapshot import Node, Taint
from muster.model import names
from muster.model.pools import Pool
from muster.model.stack import Stack
from muster.replay import stored

_HOST: Final = "kubernetes.io/hostname"
_PODS: Final = 110


def all_nodes(stack: Stack, existing: Sequence[Node]) -> list[Node]:
    """Existing nodes, with those that the pools may add behind them."""
    existing = [_released(each) for each in existing]
    by_pool: defaultdict[str, list[Node]] = defaultdict(list)
    for each in existing:
        by_pool[each.labels.get(names.POOL_LABEL, "")].append(each)
    return [*existing, *(node for pool in stack.pools for node in _added(pool, by_pool[pool.name]))]


def flavors_of(stack: Stack, nodes: Sequence[Node]) -> dict[str, str]:
    """Node -> the flavor of its pool."""
    flavors = {pool.name: pool.flavor for pool in stack.pools}
    pools = {each.name: each.labels.get(names.POOL_LABEL, "") for each in nodes}
    return {name: flavors.get(pool, pool) for name, pool in pools.items()}


def _released(node: Node) -> Node:
    """Without the taint by which placeholders hold it for a gang behind the gate."""
    return replace(node, taints=tuple(each for each in node.taints if each.key != names.HELD_TAINT_KEY))


def _added(pool: Pool, siblings: Sequence[Node]) -> Iterator[Node]:
    """Like the sibling with the most room."""
    model = max(siblings, key=lambda each: sorted(each.room.items()), default=_machine_node(pool))
    for number in range(len(siblings), pool.max_nodes):
        name = f"{pool.name}-what-if-{number}"
        labels = {**model.labels, _HOST: name}
        yield replace(model, name=name, labels=labels, is_cordoned=False, is_ready=True)


def _machine_node(pool: Pool) -> Node:
    room = {
        "cpu": int(pool.machine.allocatable_cpu),
        "memory": int(pool.machine.allocatable_memory),
        "pods": _PODS,
    }
    taints: tuple[Taint, ...] = ()
    if pool.is_gpu:
        room[pool.device] = pool.slots_per_node
        taints = (Taint(pool.device, names.GPU_TAINT_VALUE, names.GPU_TAINT_EFFECT),)
    labels = {names.POOL_LABEL: pool.name, **pool.labels, **pool.device_labels}
    return Node(name=pool.name, room=room, labels=labels, taints=taints)


def to_manifest(node: Node) -> dict[str, Any]:
    amounts = stored.quantities(node.room)
    ready = {"type": "Ready", "status": "True" if node.is_ready else "False"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "uid": stored.uid("", node.name), "labels": dict(node.labels)},
        "spec": {
            "taints": [{"key": each.key, "value": each.value, "effect": each.effect} for each in node.taints],
            "unschedulable": node.is_cordoned,
        },
        "status": {"allocatable": amounts, "capacity": amounts, "conditions": [ready]},
    }
