"""The queue tree to draw: both sides in one, with what happens to each node.

Decides the mark and the figures of a node, and which nodes are left out of a large tree. Leaves drawing to
markdown.py and page.py.
"""

from collections.abc import Iterable, Mapping

from muster.live.sanitize import plain
from muster.model.pools import Pool
from muster.preview.compare.changes import Changes, QuotaChange
from muster.preview.document import Branch, Mark, Name, Picture
from muster.preview.figures import amount, arrow, difference
from muster.preview.tree import Node, Tree, count, own


def draw(changes: Changes, *, most: int) -> Picture | None:
    """The picture with at most `most` nodes; None when even what changes is more than that."""
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
    roots = tuple(_branch(changes, node, below, marks) for node in below.get(None, []))
    return Picture(roots, len(nodes) - len(shown))


def _up(nodes: Mapping[str, Node], name: str) -> Iterable[str]:
    here: str | None = name
    while here is not None:
        yield here
        here = nodes[here].parent


def _branch(
    changes: Changes, node: Node, below: Mapping[str | None, list[Node]], marks: Mapping[str, Mark]
) -> Branch:
    children = tuple(_branch(changes, child, below, marks) for child in below.get(node.name, []))
    return Branch(Name(node.name), node.is_team, marks[node.name], tuple(_notes(changes, node)), children)


def _marks(changes: Changes, nodes: Mapping[str, Node]) -> dict[str, Mark]:
    touched: dict[str, list[QuotaChange]] = {}
    for change in changes.quotas:
        touched.setdefault(change.name, []).append(change)
    return {name: _mark(changes, name, touched.get(name, [])) for name in nodes}


def _mark(changes: Changes, name: str, touched: list[QuotaChange]) -> Mark:
    before, after = changes.before.nodes.get(name), changes.after.nodes.get(name)
    if before is None or after is None:
        return Mark.NEW if before is None else Mark.GONE
    differences = [difference(change) for change in touched]
    if any(each > 0 for each in differences) and not any(each < 0 for each in differences):
        return Mark.MORE
    if any(each < 0 for each in differences) and not any(each > 0 for each in differences):
        return Mark.LESS
    # What a node could use at most changes with its neighbours; that alone is no change of the node.
    return Mark.SAME if before == after else Mark.OTHER


def _notes(changes: Changes, node: Node) -> Iterable[str]:
    """The quota of each GPU pool, and of CPU pools where it changes."""
    for name, pool in {**changes.before.pools, **changes.after.pools}.items():
        before, after = (_own(tree, node.name, name, pool) for tree in (changes.before, changes.after))
        if (before or after) and (pool.is_gpu or before != after):
            yield f"{plain(name)} {arrow(amount(pool, before), amount(pool, after))}"


def _own(tree: Tree, name: str, pool: str, kind: Pool) -> int:
    node = tree.nodes.get(name)
    return 0 if node is None or pool not in tree.pools else count(kind, own(node, pool))
