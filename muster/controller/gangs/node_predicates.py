"""Which telling of a node is news to those who wait for nodes.

A kubelet says every few minutes that its node lives: of fifteen thousand nodes that is fifty tellings a
second, at each of which every gang that waits would look again.
"""

from muster.controller.gangs.objects import Node


def node_changed(before: Node | None, after: Node | None) -> bool:
    """A node that only says that it lives is none."""
    return before is None or after is None or _relevant(before) != _relevant(after)


def _relevant(node: Node) -> object:
    """All of it but its version: a heartbeat changes nothing else that we keep."""
    return node.metadata.labels, node.metadata.deletion_timestamp, node.spec, node.status
