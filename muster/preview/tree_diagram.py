"""The queue tree to draw: base and head in one, with the change of each node.

Responsible for the mark and the amounts of a node, and for which branches are folded because nothing in them
changes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from muster.model.kueue.tree import Node, Tree, in_pool_unit, nominal_quota
from muster.model.pools import Pool
from muster.model.quotas import is_unlimited
from muster.preview.compare.diff import Changes, Used
from muster.preview.compare.quota import Quota, QuotaChange
from muster.preview.document import Bar, Mark, TreeDiagram, TreeNode, UntrustedText
from muster.preview.figures import format_amount, format_amounts
from muster.printable import sanitize_line

# The quota of teams as bars: guaranteed, borrowable, and in use where a snapshot shows it.


def to_bars(changes: Sequence[QuotaChange], used: Used) -> tuple[Bar, ...]:
    """One bar for each change."""
    scales: dict[str, int] = {}
    for change in changes:
        amounts = (*_amounts(change), used.get((change.name, change.pool.name), 0))
        finite = [each for each in amounts if not is_unlimited(change.pool, each)]
        scales[change.pool.name] = max([scales.get(change.pool.name, 1), *finite])
    return tuple(_bar(each, used, scales[each.pool.name]) for each in changes)


def _bar(change: QuotaChange, used: Used, scale: int) -> Bar:
    before, after, most, reach = _amounts(change)
    now = used.get((change.name, change.pool.name))
    words = [
        f"guaranteed {format_amounts(change.pool, before, after)}",
        f"could use {format_amounts(change.pool, most, reach)}",
        *(() if now is None else (f"uses {format_amount(change.pool, now)} now",)),
    ]
    return Bar(before=before, after=after, reach=reach, used=now, scale=scale, label=", ".join(words))


def _amounts(change: QuotaChange) -> tuple[int, int, int, int]:
    """Guaranteed before and after, and the most that could be used before and after."""
    sides = change.before, change.after
    before, after = (0 if side is None else in_pool_unit(change.pool, side.own) for side in sides)
    most, reach = (_most(side) for side in sides)
    return before, after, most, reach


def _most(side: Quota | None) -> int:
    return 0 if side is None else side.most


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
        before, after = (_own_quota(tree, node.name, name, pool) for tree in (changes.before, changes.after))
        is_written = any(
            node.name in tree.nodes and name in tree.nodes[node.name].written
            for tree in (changes.before, changes.after)
        )
        if (before or after) and (pool.is_gpu or (is_written and before != after)):
            yield f"{sanitize_line(name)} {format_amounts(pool, before, after)}"


def _own_quota(tree: Tree, name: str, pool: str, kind: Pool) -> int:
    node = tree.nodes.get(name)
    return 0 if node is None or pool not in tree.pools else in_pool_unit(kind, nominal_quota(node, pool))
