"""What is new in preemption, as sentences: `speech` can now evict `notebooks` on `l4`, `prod` over `dev`.

Responsible for the wording of a PreemptionChange. The rules are in compare/.
"""

from collections.abc import Iterator

from muster.preview.compare.changes import Changes
from muster.preview.compare.kai_rules import KaiRules
from muster.preview.compare.preemption import PreemptionChange
from muster.preview.document import Span, Text, UntrustedText, join_names

_NAMES = 3


def new_evictions(changes: Changes, *, is_kai: bool, only_old: bool = False) -> Iterator[Text]:
    """One sentence for each new right on a pool with GPUs.

    With `only_old` of teams that base has as well: a new team's rights follow from its being new.
    """
    for row in changes.preemption:
        who, whom = row.preemptors, row.victims
        if only_old:
            who, whom = (tuple(name for name in side if name in changes.before.nodes) for side in (who, whom))
        is_pair = row.right is None or bool(set(whom) - set(who)) or len(whom) > 1
        if row.is_new and who and whom and is_pair and (sentence := _sentence(changes, row, who, whom)):
            yield (*sentence, *_ranks(changes, row, who, whom, is_kai=is_kai))


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
    """With KAI, by name, what it means where no more nodes come: Muster's gate lets it happen."""
    rules = changes.rules[1]
    if not isinstance(rules, KaiRules):
        return ()
    high, low = rules.extremes(team)
    return (": ", UntrustedText(high), " can take the GPUs of ", UntrustedText(low))


def _ranks(
    changes: Changes, row: PreemptionChange, who: tuple[str, ...], whom: tuple[str, ...], *, is_kai: bool
) -> Iterator[Span]:
    """`, prod over dev` where the preemptor's priority has to be higher."""
    nodes, names = changes.after.nodes, changes.after.priorities
    first = nodes[who[0]]
    if is_kai or row.right is None or first.reclaim in ("Any", "Never"):
        return
    lowest = {nodes[name].lowest for name in whom}
    high, low = names.get(first.highest), names.get(min(lowest))
    if high is not None and low is not None:
        yield from (", ", UntrustedText(high), " over ", UntrustedText(low))
