"""Which changes of a job would let it start sooner, in the same futures.

Responsible for choosing them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from muster.preview.replay.submitted import Alternative
from muster.replay.forecast import Forecast
from muster.replay.recording import Job

Predict = Callable[[Job, int], Forecast]
"""The forecast of a job that takes the place of the one that is asked about, in the first so many futures."""

# A change that is no better in most of the first futures is not played in the others.
_FIRST: Final = 10


@dataclass(frozen=True, slots=True)
class Sooner:
    """`futures` is in how many it starts sooner than the job as it is."""

    change: str
    forecast: Forecast
    futures: int


@dataclass(frozen=True, slots=True)
class Alternatives:
    """`tried` are the changes that were played, `sooner` those that start sooner in most futures, the soonest
    first.
    """

    tried: tuple[str, ...]
    sooner: tuple[Sooner, ...]


@dataclass(frozen=True, slots=True)
class Prediction:
    """`alternatives` is None for a job that waits already: its size and pool are fixed."""

    forecast: Forecast
    alternatives: Alternatives | None = None


def find_sooner(own: Forecast, alternatives: Sequence[Alternative], predict: Predict) -> Alternatives:
    """Nothing is tried for a job that starts at once."""
    if own.latest == 0:
        return Alternatives((), ())
    found = sorted(
        _sooner(own, alternatives, predict), key=lambda each: (each.forecast.median, each.forecast.latest)
    )
    return Alternatives(tuple(each.change for each in alternatives), tuple(found))


def _sooner(own: Forecast, alternatives: Sequence[Alternative], predict: Predict) -> Iterator[Sooner]:
    for each in alternatives:
        for runs in (min(_FIRST, own.runs), own.runs):
            found = predict(each.job, runs)
            futures = sum(start < before for start, before in zip(found.starts, own.starts, strict=False))
            if 2 * futures <= runs:
                break
        else:
            yield Sooner(each.change, found, futures)
