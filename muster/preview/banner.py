"""The banner of a stack: what a reviewer decides on, in one line, losses before gains.

    vision -8 H100, notebooks -4 L4; robotics +8 H100 (new); new priority urgent, open to 3 teams; H100 in all
    64 to 80

Responsible for what belongs in it and in which order. Every format shows this banner. A quota counts where
the stack file names it; what Muster derives (a share of a CPU pool, the CPU that comes with a GPU) does not.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from muster.model.kai import DEFAULT_QUEUE_PRIORITY
from muster.model.kueue.tree import Holding, Tree, in_pool_unit
from muster.model.pools import Pool
from muster.model.quantities import many
from muster.model.quotas import is_unlimited
from muster.model.transitions import Verdict
from muster.preview.compare.diff import Changes, StackDiff
from muster.preview.compare.kai import KaiDiff, QueueChange, format_move, moves_beside_pools
from muster.preview.compare.pools import PoolOrder
from muster.preview.compare.preemption import PreemptionChange
from muster.preview.compare.quota import FlavorMove, QuotaChange
from muster.preview.document import Mark, Phrase, Span, Text, UntrustedText, join_names
from muster.preview.figures import format_amount, format_unit
from muster.preview.plan import GRAVE

_STOPPED: Final = "The preview failed: the engine stopped, so resources that it did not reach are not listed"
_MAX_LOSSES: Final = 8
_MAX_GAINS: Final = 4
_MAX_OTHERS: Final = 3
_STOPS: Final = {
    "Hold": "starts no more work (stopPolicy: Hold)",
    "HoldAndDrain": "stops all of its work (stopPolicy: HoldAndDrain)",
}
_ALONE: Final = {"removed": " removed", "new": " new, without a quota of its own"}


@dataclass(frozen=True, slots=True)
class Banner:
    """What is refused, who loses, who gains, and what else a reviewer decides on."""

    refusals: tuple[Text, ...]
    losses: tuple[Text, ...]
    gains: tuple[Text, ...]
    others: tuple[Text, ...]
    is_change: bool

    @property
    def phrases(self) -> tuple[Phrase, ...]:
        """All of it in one line, in parts."""
        groups = (
            (self.refusals, Mark.GONE, ". "),
            (self.losses, Mark.LESS, ", "),
            (self.gains, Mark.MORE, ", "),
            (self.others, Mark.RISK, "; "),
        )
        found = [
            Phrase(text, mark, separator if index < len(texts) - 1 else "; ")
            for texts, mark, separator in groups
            for index, text in enumerate(texts)
        ]
        if not found:
            text = "Changes, and no team loses quota." if self.is_change else "Nothing changes."
            return (Phrase((text,), Mark.SAME),)
        return (*found[:-1], replace(found[-1], after="." if self.refusals else ""))

    @property
    def text(self) -> Text:
        """All of it in one line."""
        return tuple(span for phrase in self.phrases for span in (*phrase.text, phrase.after) if span != "")


def plain(text: Text) -> str:
    """Without markup, for a program."""
    return "".join(span.text if isinstance(span, UntrustedText) else span for span in text)


def to_banner(diff: StackDiff) -> Banner:
    """The banner of one stack."""
    refusals = tuple(_refusals(diff))
    resources = tuple(_resources(diff))
    changes = diff.changes
    if changes is None:
        return Banner(refusals, (), (), resources, not diff.is_empty)
    return Banner(
        refusals=refusals,
        losses=(*_data(changes), *_bounded(_losses(changes, diff.kai), _MAX_LOSSES, "loses", "lose")),
        gains=_bounded(_gains(changes, diff.kai), _MAX_GAINS, "gains", "gain"),
        others=(*_over(diff), *_others(changes, diff.kai), *resources),
        is_change=not diff.is_empty,
    )


def _refusals(diff: StackDiff) -> Iterator[Text]:
    if diff.mistakes:
        yield (f"Refused: {many(len(diff.mistakes), 'mistake')} in the stack's description",)
    mandatory = sum(each.is_mandatory for each in diff.policy_violations)
    if mandatory:
        yield (f"Refused by the policy pack: {many(mandatory, 'violation')}",)
    for step in () if diff.changes is None else diff.changes.versions:
        if step.verdict is Verdict.REFUSED:
            before, after = UntrustedText(step.before), UntrustedText(step.after)
            yield (f"Refused: {step.component} cannot go from ", before, " to ", after)
    if diff.failures:
        yield (_STOPPED,)


# Data


def _data(changes: Changes) -> Iterator[Text]:
    if len(changes.namespaces) == 1:
        yield ("namespace ", UntrustedText(changes.namespaces[0].name), " deleted")
    elif changes.namespaces:
        yield (f"{many(len(changes.namespaces), 'namespace')} deleted",)
    if changes.volumes:
        yield (f"{many(len(changes.volumes), 'volume')} deleted with the data",)


# Quota


def _losses(changes: Changes, kai: KaiDiff | None) -> list[Text]:
    """Removed teams first, then by the number of GPUs, then CPUs."""
    found = _moves_of_kai(changes, kai)
    lost = {name: move for name, move in found.items() if move.difference < 0}
    of_pools = _moves(changes, lambda change: change.loss, lost, gone_from=changes.after, word="removed")
    return of_pools + [_beside_pools(each) for each in changes.beside_pools if each.is_loss]


def _gains(changes: Changes, kai: KaiDiff | None) -> list[Text]:
    found = _moves_of_kai(changes, kai)
    gained = {name: move for name, move in found.items() if move.difference > 0}
    of_pools = _moves(changes, lambda change: change.gain, gained, gone_from=changes.before, word="new")
    return of_pools + [_beside_pools(each) for each in changes.beside_pools if not each.is_loss]


def _beside_pools(move: FlavorMove) -> Text:
    team, resource, flavor = map(UntrustedText, (move.team, move.resource, move.flavor))
    return (team, " ", resource, f" {move.amounts} of flavor ", flavor)


def _moves_of_kai(changes: Changes, kai: KaiDiff | None) -> dict[str, QueueChange]:
    of_pools = {change.name for change in changes.quotas if change.gain or change.loss}
    return {move.path[-1]: move for move in moves_beside_pools(kai, of_pools)}


def _moves(
    changes: Changes,
    amount: Callable[[QuotaChange], int],
    of_kai: Mapping[str, QueueChange],
    *,
    gone_from: Tree,
    word: str,
) -> list[Text]:
    moved: dict[str, list[QuotaChange]] = {name: [] for name in of_kai}
    for change in changes.quotas:
        if amount(change):
            moved.setdefault(change.name, []).append(change)
    other = changes.before if gone_from is changes.after else changes.after
    names = other.team_names - gone_from.team_names
    for name in names:
        moved.setdefault(name, [])
    first = names if word == "removed" else frozenset[str]()

    def order(name: str) -> tuple[bool, float, int, str]:
        sizes = [
            sum(amount(each) for each in moved[name] if each.pool.is_gpu is is_gpu)
            for is_gpu in (True, False)
        ]
        gpus = sizes[0] + (abs(of_kai[name].difference) / 1000 if name in of_kai else 0)
        return (name not in first, -gpus, -sizes[1], name)

    teams = changes.before.team_names | changes.after.team_names
    return [
        _mover(name, moved[name], is_team=name in teams)
        + ((f" {format_move(of_kai[name])}",) if name in of_kai else ())
        + ((f" ({word})" if moved[name] or name in of_kai else _ALONE[word],) if name in names else ())
        for name in sorted(moved, key=order)
    ]


def _mover(name: str, moved: list[QuotaChange], *, is_team: bool) -> Text:
    spans: list[Span] = [] if is_team else ["department "]
    spans.append(UntrustedText(name))
    for index, change in enumerate(sorted(moved, key=lambda each: (not each.pool.is_gpu, each.pool.name))):
        spans += [" and " if index else " ", *_move(change)]
    return tuple(spans)


def _move(change: QuotaChange) -> Text:
    pool, kind = change.pool, _kind(change.pool)
    if not is_unlimited(pool, change.difference):
        return (
            f"{'+' if change.difference > 0 else '-'}{format_amount(pool, abs(change.difference))} ",
            *kind,
        )
    before, after = (
        format_amount(pool, 0 if side is None else in_pool_unit(pool, side.own))
        for side in (change.before, change.after)
    )
    return (*kind, f" {before} to {after}")


def _kind(pool: Pool) -> Text:
    """`H100` for a pool of H100s that is named so, else the pool's name and what it counts."""
    device = "" if pool.accelerator is None else pool.accelerator.name
    if pool.name in device.split("-"):
        return (pool.name.upper(),)
    if not pool.is_gpu and pool.name == "cpu":
        return ("CPU",)
    return (f"{format_unit(pool)} of ", UntrustedText(pool.name))


# What else a reviewer decides on


def _over(diff: StackDiff) -> Iterator[Text]:
    """Teams that were within their quota, and use more now than what the change leaves them."""
    found: list[Text] = [
        (
            UntrustedText(each.team),
            f" uses {format_amount(each.pool, each.used)} ",
            *_kind(each.pool),
            f" now, {format_amount(each.pool, each.used - each.after)} more than its new quota",
        )
        for each in diff.overuse
        if each.is_new
    ]
    yield from _capped(found, "more team above its new quota", "more teams above their new quota")


def _others(changes: Changes, kai: KaiDiff | None) -> Iterator[Text]:
    if changes.releases_namespaces:
        yield ("namespaces no longer guarded",)
    yield from _capped(
        list(_stops(changes)), "more queue stopped or started", "more queues stopped or started"
    )
    yield from _capped(list(_priorities(changes)), "more change of a priority", "more changes of priorities")
    yield from _capped(
        list(_access(changes)), "more team with other priorities", "more teams with other priorities"
    )
    yield from _capped(list(_places(changes)), "more move", "more moves")
    yield from _capped(list(_limits(changes)), "more limit", "more limits")
    yield from _capped(list(_weights(changes)), "more weight", "more weights")
    if kai is not None:
        found = [*_queue_priorities(changes), *_protected(kai)]
        yield from _capped(found, "more change of KAI's order", "more changes of KAI's order")
    rights = list(new_evictions(changes, only_old=True))
    yield from _capped(rights, "more right to evict", "more rights to evict")
    if changes.not_compared:
        yield ("preemption could not be compared",)
    if (channel := changes.channel) is not None:
        yield (f"GKE upgrades the cluster by itself, in channel {channel.after} ({channel.before} before)",)
    if changes.order is not None:
        yield from _capped(
            list(_order(changes.order)), "more pool with another place", "more pools with another place"
        )
    yield from _pools(changes)
    ordered = sum(each.verdict is Verdict.ORDERED for each in changes.versions)
    if ordered:
        yield (f"{many(ordered, 'version')} that {'needs' if ordered == 1 else 'need'} an order",)


def _stops(changes: Changes) -> Iterator[Text]:
    """Queues that Kueue holds, or no longer: nothing is lost by the figures, and no job starts."""
    for owner, _, after in _settings(changes, "kueue", "stop policy", unset="None"):
        yield (*owner, f" {_STOPS.get(after, 'starts work again')}")


def _weights(changes: Changes) -> Iterator[Text]:
    for owner, before, after in _settings(changes, "weight", unset="1"):
        yield (*owner, f" has weight {after} ({before} before)")


def _queue_priorities(changes: Changes) -> Iterator[Text]:
    """A team has a Queue for each of its pools, and one priority."""
    for owner, before, after in _settings(changes, "kai", "priority", unset=str(DEFAULT_QUEUE_PRIORITY)):
        yield (*owner, f" has queue priority {after} ({before} before)")


def _protected(kai: KaiDiff) -> Iterator[Text]:
    for each in kai.evictions:
        how = "can no longer be evicted" if each.is_protected else "can be evicted now"
        yield ("work of priority ", UntrustedText(each.priority.name), f" {how}")


def _settings(changes: Changes, *path: str, unset: str) -> Iterator[tuple[Text, str, str]]:
    """The team or department of both sides, and the value before and after, of a setting."""
    for each in changes.settings:
        owner, before, after = each.owner, each.before or unset, each.after or unset
        if owner is None or each.path != path or before == after:
            continue
        if owner.name in changes.before.nodes and owner.name in changes.after.nodes:
            own = () if owner.kind == "team" else (f"{owner.kind} ",)
            yield (*own, UntrustedText(owner.name)), before, after


def _priorities(changes: Changes) -> Iterator[Text]:
    for each in changes.priorities:
        name = UntrustedText(each.name)
        if each.before is None and each.teams:
            yield ("new priority ", name, f", open to {many(len(each.teams), 'team')}")
        elif each.after is None:
            yield ("priority ", name, f" removed, which {many(len(each.teams), 'team')} could use")
        elif each.before is not None and each.is_reordered:
            yield ("priority ", name, f" {each.before} to {each.after}, in another order than before")


def _access(changes: Changes) -> Iterator[Text]:
    for each in changes.access:
        words: list[Span] = [UntrustedText(each.team)]
        if each.gained:
            words += [" may now use priority ", *join_names(each.gained)]
        if each.lost:
            words += [" and" if each.gained else "", " may no longer use priority ", *join_names(each.lost)]
        yield tuple(words)


def _places(changes: Changes) -> Iterator[Text]:
    """Departments that stop or begin to share, and teams that move to another one or to another queue."""
    pairs = [
        (node, changes.after.nodes[node.name])
        for node in changes.before.teams()
        if node.name in changes.after.nodes
    ]
    switched = {
        (after.department, after.is_alone)
        for before, after in pairs
        if before.is_alone is not after.is_alone and before.department == after.department
    }
    for department, is_alone in sorted(switched):
        what = "no longer share with anyone (cohort: none)" if is_alone else "share now"
        yield ("teams of ", UntrustedText(department), f" {what}")
    for before, after in pairs:
        if before.department != after.department:
            yield (
                UntrustedText(after.name),
                " moves from ",
                UntrustedText(before.department),
                " to ",
                UntrustedText(after.department),
            )
    was, now, teams = changes.before.guests, changes.after.guests, changes.after.team_names
    for name in sorted((changes.before.team_names | now.keys()) & teams):
        old, new = was.get(name), now.get(name)
        if old != new:
            queue: Text = (" a queue of its own",) if new is None else (" the queue of ", UntrustedText(new))
            yield (UntrustedText(name), " uses", *queue)


def _limits(changes: Changes) -> Iterator[Text]:
    """What a queue of both sides may borrow and lend of a GPU pool, the smaller limits first."""
    found = [
        (more, text)
        for change in changes.quotas
        if change.pool.is_gpu and change.before is not None and change.after is not None
        if not any(tree.nodes[change.name].is_alone for tree in (changes.before, changes.after))
        for more, text in _limit_changes(change, change.before.holding, change.after.holding)
    ]
    yield from (text for _, text in sorted(found, key=lambda each: each[0]))


def _limit_changes(
    change: QuotaChange, before: Holding | None, after: Holding | None
) -> Iterator[tuple[bool, Text]]:
    if before is None or after is None:
        return
    for verb, one, two in (
        ("may borrow", before.borrow, after.borrow),
        ("lends", before.lend, after.lend),
    ):
        sides = [None if side is None else in_pool_unit(change.pool, side) for side in (one, two)]
        old, new = sides
        if old == new:
            continue
        words = ["all" if side is None else format_amount(change.pool, side) for side in sides]
        own = () if change.is_team else ("department ",)
        now, then = words[1] if new != 0 else "no", words[0] if old != 0 else "none"
        text = (*own, UntrustedText(change.name), f" {verb} {now} ", *_kind(change.pool))
        yield old is not None and (new is None or new > old), (*text, f" ({then} before)")


def _order(order: PoolOrder) -> Iterator[Text]:
    for first, others in order.swaps.items():
        yield ("work goes to ", UntrustedText(first), " before ", *join_names(others))


def _pools(changes: Changes) -> Iterator[Text]:
    for each in changes.pools:
        pool = each.after or each.before
        if pool is None or not (changes.before.pools and changes.after.pools):
            continue
        if each.before is not None and each.after is not None:
            yield from _kinds_of_nodes(each.before, each.after)
        before, after = (_size(pool, side) for side in (each.before, each.after))
        if before != after:
            yield (*_kind(pool), f" in all {format_amount(pool, before)} to {format_amount(pool, after)}")


def _kinds_of_nodes(before: Pool, after: Pool) -> Iterator[Text]:
    """Spot nodes are taken away at any time, and other GPUs run other work: no figure of a quota shows it."""
    pool = UntrustedText(after.name)
    old_gpu, new_gpu = (
        "no GPU" if each.accelerator is None else each.accelerator.name for each in (before, after)
    )
    if before.bought != after.bought:
        yield ("pool ", pool, f" is {after.bought} ({before.bought} before)")
    if old_gpu != new_gpu:
        yield ("pool ", pool, f" has {new_gpu} ({old_gpu} before)")
    elif before.machine != after.machine:
        old, new = UntrustedText(before.machine.description), UntrustedText(after.machine.description)
        yield ("pool ", pool, " is on ", new, " (", old, " before)")


def _size(pool: Pool, side: Pool | None) -> int:
    """All that the pool can have, in the pool's unit."""
    return 0 if side is None else int(side.max_gpus if pool.is_gpu else side.max_cpu)


def _resources(diff: StackDiff) -> Iterator[Text]:
    counts = [(sum(each.verb == verb for each in diff.resources(pending=False)), verb) for verb in GRAVE]
    for number, verb in counts:
        if number:
            yield (f"{many(number, 'resource')} {verb}",)


# What is new in preemption, as sentences: `speech` can now evict `notebooks` on `l4`, `prod` over `dev`.
# The rules are in compare/.

_NAMES: Final = 3


def new_evictions(changes: Changes, *, only_old: bool = False) -> Iterator[Text]:
    """One sentence for each new right on a pool with GPUs.

    With `only_old` of teams that base has as well: a new team's rights follow from its being new.
    """
    for row in changes.preemption:
        who, whom = row.preemptors, row.victims
        if only_old:
            who, whom = (tuple(name for name in side if name in changes.before.nodes) for side in (who, whom))
        is_pair = row.right is None or bool(set(whom) - set(who)) or len(whom) > 1
        if row.is_new and who and whom and is_pair and (sentence := _sentence(changes, row, who, whom)):
            yield (*sentence, *_ranks(changes, row, who, whom))


def _sentence(changes: Changes, row: PreemptionChange, who: tuple[str, ...], whom: tuple[str, ...]) -> Text:
    """Empty where only pools without GPUs are concerned, or a new team's own work."""
    if row.right is None:
        known = tuple(name for name in who if name in changes.before.nodes)
        work = " can now evict work of a lower priority of the same team"
        return (*join_names(known, most=_NAMES), work, *_takers(changes, known[0])) if known else ()
    pools = tuple(name for name in row.pools if changes.after.pools[name].is_gpu)
    if not pools:
        return ()
    victims: Text = ("each other",) if who == whom else join_names(whom, most=_NAMES)
    return (
        *join_names(who, most=_NAMES),
        " can now evict ",
        *victims,
        " on ",
        *join_names(pools, most=_NAMES),
    )


def _takers(changes: Changes, team: str) -> Text:
    if (found := changes.rules[1].takers(team)) is None:
        return ()
    high, low = found
    return (": ", UntrustedText(high), " can take the GPUs of ", UntrustedText(low))


def _ranks(
    changes: Changes, row: PreemptionChange, who: tuple[str, ...], whom: tuple[str, ...]
) -> Iterator[Span]:
    """`, prod over dev` where the preemptor's priority has to be higher."""
    nodes, names = changes.after.nodes, changes.after.priorities
    first = nodes[who[0]]
    if not changes.has_flavors or row.right is None or first.reclaim in ("Any", "Never"):
        return
    lowest = {nodes[name].lowest for name in whom}
    high, low = names.get(first.highest), names.get(min(lowest))
    if high is not None and low is not None:
        yield from (", ", UntrustedText(high), " over ", UntrustedText(low))


# Wording


def _bounded(found: list[Text], most: int, verb: str, plural: str) -> tuple[Text, ...]:
    """At most `most` of the texts, and how many teams and departments there are beyond them."""
    more = len(found) - most
    if more <= 0:
        return tuple(found)
    return (*found[:most], (f"{more} more {verb if more == 1 else plural} quota",))


def _capped(found: list[Text], one: str, several: str) -> Iterator[Text]:
    yield from found[:_MAX_OTHERS]
    more = len(found) - _MAX_OTHERS
    if more > 0:
        yield (f"{more} {one if more == 1 else several}",)
