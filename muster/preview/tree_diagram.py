"""The queue tree to draw: base and head in one, with the change of each node.

Responsible for the mark and the amounts of a node, and for which nodes a large tree leaves out. Not
responsible for drawing (markdown.py, svg.py).
"""

from collections.abc import Iterable, Mapping

from muster.live.sanitize import sanitize_line
from muster.model.pools import Pool
from muster.preview.compare.changes import Changes
from muster.preview.compare.quota import QuotaChange
from muster.preview.document import Mark, TreeDiagram, TreeNode, UntrustedText
from muster.preview.figures import format_amount, format_change
from muster.preview.tree import Node, Tree, in_pool_unit, nominal_quota


def to_diagram(changes: Changes, *, most: int) -> TreeDiagram | None:
    """The diagram with at most `most` nodes; None when more nodes than that change."""
    nodes = {**changes.before.nodes, **changes.after.nodes}
    marks = _marks(changes, nodes)
    shown = list(nodes)
    if len(shown) > most:
        kept = {step for name in nodes if marks[name] is not Mark.SAME for step in _up(nodes, name)}
        shown = [name for name in nodes if name in kept]
    if not shown or len(shown) > most:
        return None
    below: dict[str | None, list[Node]] = {}
    for name in sorted(shown):
        below.setdefault(nodes[name].parent, []).append(nodes[name])
    roots = tuple(_to_node(changes, node, below, marks) for node in below.get(None, []))
    return TreeDiagram(roots, len(nodes) - len(shown))


def _up(nodes: Mapping[str, Node], name: str) -> Iterable[str]:
    here: str | None = name
    while here is not None:
        yield here
        here = nodes[here].parent


def _to_node(
    changes: Changes, node: Node, below: Mapping[str | None, list[Node]], marks: Mapping[str, Mark]
) -> TreeNode:
    children = tuple(_to_node(changes, child, below, marks) for child in below.get(node.name, []))
    return TreeNode(
        UntrustedText(node.name), node.is_team, marks[node.name], tuple(_notes(changes, node)), children
    )


def _marks(changes: Changes, nodes: Mapping[str, Node]) -> dict[str, Mark]:
    touched: dict[str, list[QuotaChange]] = {}
    for change in changes.quotas:
        touched.setdefault(change.name, []).append(change)
    return {name: _mark(changes, name, touched.get(name, [])) for name in nodes}


def _mark(changes: Changes, name: str, touched: list[QuotaChange]) -> Mark:
    before, after = changes.before.nodes.get(name), changes.after.nodes.get(name)
    if before is None or after is None:
        return Mark.NEW if before is None else Mark.GONE
    differences = [change.difference for change in touched]
    if any(each > 0 for each in differences) and not any(each < 0 for each in differences):
        return Mark.MORE
    if any(each < 0 for each in differences) and not any(each > 0 for each in differences):
        return Mark.LESS
    # What a node could use at most depends on other nodes, so a change of it alone is no change of the node.
    return Mark.SAME if before == after else Mark.OTHER


def _notes(changes: Changes, node: Node) -> Iterable[str]:
    """The quota in each GPU pool, and in CPU pools where it changes."""
    for name, pool in {**changes.before.pools, **changes.after.pools}.items():
        before, after = (_own(tree, node.name, name, pool) for tree in (changes.before, changes.after))
        if (before or after) and (pool.is_gpu or before != after):
            amounts = format_change(format_amount(pool, before), format_amount(pool, after))
            yield f"{sanitize_line(name)} {amounts}"


def _own(tree: Tree, name: str, pool: str, kind: Pool) -> int:
    node = tree.nodes.get(name)
    return 0 if node is None or pool not in tree.pools else in_pool_unit(kind, nominal_quota(node, pool))
