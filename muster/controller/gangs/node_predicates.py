"""Predicate for node changes: heartbeats are no change.

A kubelet updates its node every few minutes. With fifteen thousand nodes that is fifty updates a second, each
of which would reconcile every gang that waits for nodes.
"""

from muster.controller.gangs.objects import Node


def node_changed(before: Node | None, after: Node | None) -> bool:
    """Whether more than the heartbeat changed."""
    return before is None or after is None or _relevant(before) != _relevant(after)


def _relevant(node: Node) -> object:
    """All of it but its version: a heartbeat changes nothing else that we keep."""
    return node.metadata.labels, node.metadata.deletion_timestamp, node.spec, node.status
