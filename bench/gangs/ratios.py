"""Ours as a multiple of Kueue's own check, round by round.

Other load on the machine changes a figure more than the difference that is measured. Trials of one round
follow one another within minutes, so their ratio is more reliable than the ratio of two medians.
"""

from collections.abc import Mapping
from typing import Final

from bench.gangs.figures import Spread, spread
from bench.gangs.results import Figure, Results
from bench.gangs.trial import Trial
from bench.gangs.variants import ALL
from muster.model.stack import GangMode

RIVALS: Final = {
    ours.name: other.name
    for ours in ALL
    for other in ALL
    if ours.mode is GangMode.MUSTER and other.mode is GangMode.BUILTIN and ours.is_tuned == other.is_tuned
}
"""Each of ours and the one beside the same Kueue."""


def ratios(results: Results, case: str, contender: str, figure: Figure) -> list[float]:
    """One for each round in which both were run to their end and have the figure; none for a rival."""
    found = (_ratio(each, contender, figure) for each in results.rounds(case))
    return [each for each in found if each is not None]


def ratio(results: Results, case: str, contender: str, figure: Figure) -> Spread | None:
    found = ratios(results, case, contender, figure)
    return spread(found) if found else None


def _ratio(trials: Mapping[str, Trial], contender: str, figure: Figure) -> float | None:
    ours, other = trials.get(contender), trials.get(RIVALS.get(contender, ""))
    if ours is None or other is None or ours.is_cut_short or other.is_cut_short:
        return None
    above, below = figure(ours), figure(other)
    return above / below if above is not None and below else None
