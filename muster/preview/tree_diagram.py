"""The queue tree to draw: base and head in one, with the change of each node.

Responsible for the mark and the amounts of a node, and for which branches are folded because nothing in them
changes. Not responsible for drawing (markdown.py, html.py).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from muster.live.sanitize import sanitize_line
from muster.model.kueue.tree import Node, Tree, in_pool_unit, nominal_quota
from muster.model.pools import Pool
from muster.preview.compare.changes import Changes
from muster.preview.compare.quota import QuotaChange
from muster.preview.document import Mark, TreeDiagram, TreeNode, UntrustedText
from muster.preview.figures import format_amounts

# What a mark shows of a node itself, beside its quota.
_SETTINGS: Final = attrgetter(
    "parent", "is_team", "within", "reclaim", "highest", "lowest", "written", "department"
)


def to_diagram(changes: Changes, *, most: int) -> TreeDiagram | None:
    """The nodes that change, with all above them. The others are folded, and left out beyond ten times
    `most` nodes. None when no node changes, or more than `most`.
    """
    nodes = {**changes.before.nodes, **changes.after.nodes}
    marks = _marks(changes, nodes)
    kept = {step for name in nodes if marks[name] is not Mark.SAME for step in _up(nodes, name)}
    if not 0 < len(kept) <= most:
        return None
    is_whole = len(nodes) <= 10 * most
    shown = sorted(nodes if is_whole else kept)
    below: dict[str | None, list[Node]] = {}
    for name in shown:
        below.setdefault(nodes[name].parent, []).append(nodes[name])
    roots, folded = _Drawing(changes, marks, frozenset(kept), below).branches(None)
    return TreeDiagram(roots, folded, len(nodes) - len(shown))


@dataclass(frozen=True, slots=True)
class _Drawing:
    """`kept` are the nodes that change and those above them."""

    changes: Changes
    marks: Mapping[str, Mark]
    kept: frozenset[str]
    below: Mapping[str | None, list[Node]]

    def branches(self, parent: str | None) -> tuple[tuple[TreeNode, ...], tuple[TreeNode, ...]]:
        """The nodes below a parent, and those of them that are folded: two or more without a change."""
        found = [(node.name in self.kept, self._node(node)) for node in self.below.get(parent, [])]
        folded = tuple(node for is_kept, node in found if not is_kept)
        if sum(node.size() for node in folded) < 2:
            return tuple(node for _, node in found), ()
        return tuple(node for is_kept, node in found if is_kept), folded

    def _node(self, node: Node) -> TreeNode:
        if node.name in self.kept:
            children, folded = self.branches(node.name)
        else:
            children, folded = tuple(self._node(child) for child in self.below.get(node.name, [])), ()
        notes = tuple(_notes(self.changes, node))
        return TreeNode(
            UntrustedText(node.name), node.is_team, self.marks[node.name], notes, children, folded
        )


def _up(nodes: Mapping[str, Node], name: str) -> Iterable[str]:
    here: str | None = name
    while here is not None:
        yield here
        here = nodes[here].parent


def _marks(changes: Changes, nodes: Mapping[str, Node]) -> dict[str, Mark]:
    touched: dict[str, list[QuotaChange]] = {}
    for change in changes.quotas:
        touched.setdefault(change.name, []).append(change)
    return {name: _mark(changes, name, touched.get(name, [])) for name in nodes}


def _mark(changes: Changes, name: str, touched: list[QuotaChange]) -> Mark:
    before, after = changes.before.nodes.get(name), changes.after.nodes.get(name)
    if before is None or after is None:
        return Mark.NEW if before is None else Mark.GONE
    gains, losses = any(change.gain for change in touched), any(change.loss for change in touched)
    if gains is not losses:
        return Mark.MORE if gains else Mark.LESS
    # What a node could use at most, and a derived share, depend on other nodes: no change of the node.
    own = any(not (change.is_derived or change.is_indirect) for change in touched if change.is_team)
    return Mark.OTHER if own or gains or _SETTINGS(before) != _SETTINGS(after) else Mark.SAME


def _notes(changes: Changes, node: Node) -> Iterable[str]:
    """The quota in each GPU pool, and in CPU pools where it changes."""
    for name, pool in {**changes.before.pools, **changes.after.pools}.items():
        before, after = (_own(tree, node.name, name, pool) for tree in (changes.before, changes.after))
        is_written = any(
            node.name in tree.nodes and name in tree.nodes[node.name].written
            for tree in (changes.before, changes.after)
        )
        if (before or after) and (pool.is_gpu or (is_written and before != after)):
            yield f"{sanitize_line(name)} {format_amounts(pool, before, after)}"


def _own(tree: Tree, name: str, pool: str, kind: Pool) -> int:
    node = tree.nodes.get(name)
    return 0 if node is None or pool not in tree.pools else in_pool_unit(kind, nominal_quota(node, pool))
