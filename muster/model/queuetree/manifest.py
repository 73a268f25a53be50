"""The queue tree as an object of the cluster."""

from typing import Any

from muster.model.names import API_VERSION, QUEUE_TREE, QUEUE_TREE_KIND
from muster.model.queuetree.tree import Queue, QueueTree, Space

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
