"""What a trial's calls and moments amount to."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from bench.gangs.audit import LEASES, Call
from bench.gangs.timeline import Gang, Moment, Timeline

# User agents of the controllers under comparison; all others are the bench itself.
OURS: Final = "muster-manager"
KUEUE: Final = "kueue"
AGENTS: Final = (KUEUE, OURS)


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds, and of how many samples."""

    p50: float
    p99: float
    count: int = 0


@dataclass(frozen=True, slots=True)
class Agent:
    """What one program asked of the API server. `sent`: bytes of what it wrote."""

    calls: int
    writes: int
    refused: int
    sent: int


def throughput(gangs: Mapping[Gang, Timeline]) -> float:
    """Gangs admitted a second, from the first creation to the last admission; 0 where none was."""
    created = [at for each in gangs.values() if (at := each.first(Moment.CREATED))]
    admitted = [at for each in gangs.values() if (at := each.first(Moment.ADMITTED))]
    if not created or not admitted:
        return 0.0
    seconds = (max(admitted) - min(created)).total_seconds()
    return len(admitted) / seconds if seconds > 0 else 0.0


def latency(gangs: Mapping[Gang, Timeline], begin: Moment, end: Moment) -> Latency | None:
    """From `begin` to `end`, a sample for each reservation in which both came. A gang that is preempted and
    comes back gives several; a reservation that is lost before `end` gives none.
    """
    return _latency([seconds for gang in gangs.values() for seconds in gang.within(begin, end)])


def to_admission(gangs: Mapping[Gang, Timeline]) -> Latency | None:
    """From creation to the first admission, a sample for each gang that came so far, whatever it lost on the
    way.
    """
    spans = (gang.between(Moment.CREATED, Moment.ADMITTED) for gang in gangs.values())
    return _latency([seconds for seconds in spans if seconds is not None])


def _latency(taken: Sequence[float]) -> Latency | None:
    return Latency(percentile(taken, 50), percentile(taken, 99), len(taken)) if taken else None


def percentile(values: Iterable[float], percent: int) -> float:
    """The smallest value that so many percent are not above (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def agents(calls: Iterable[Call]) -> dict[str, Agent]:
    """Of the programs under comparison, by name. Without their leases, which are renewed every two seconds
    whatever happens.
    """
    found: dict[str, Agent] = {}
    for call in calls:
        if call.agent not in AGENTS or call.resource == LEASES:
            continue
        so_far = found.get(call.agent, Agent(0, 0, 0, 0))
        found[call.agent] = Agent(
            so_far.calls + 1,
            so_far.writes + call.is_write,
            so_far.refused + (call.code >= 400),
            so_far.sent + call.sent,
        )
    return found


def lost_share(gangs: Mapping[Gang, Timeline], *, stocked_out: Iterable[Gang], slots: int) -> float:
    """The share of quota-time that runnable gangs lose to stocked-out ones, from 0 to 1.

    Of the time from the first runnable gang's creation to the last one's end, with `slots` gangs' worth of
    quota: what stocked-out gangs held while at least one runnable gang waited for quota.
    """
    out = set(stocked_out)
    runnable = [each for gang, each in gangs.items() if gang not in out]
    begin = min(at for each in runnable if (at := each.first(Moment.CREATED)))
    end = max(at for each in runnable for at, _ in each.moments)
    waits = _joined(
        (at, each.first(Moment.RESERVED) or end) for each in runnable if (at := each.first(Moment.CREATED))
    )
    held = [span for gang in out for span in gangs[gang].holding(end)]
    lost = sum(_overlap(span, wait) for span in held for wait in waits)
    whole = slots * (end - begin).total_seconds()
    return lost / whole if whole else 0.0


def retries(gangs: Mapping[Gang, Timeline]) -> int:
    """Requests that failed, but for each gang's first."""
    failed = (sum(each is Moment.FAILED for _, each in gang.moments) for gang in gangs.values())
    return sum(max(0, count - 1) for count in failed)


_Span = tuple[datetime, datetime]


def _joined(spans: Iterable[_Span]) -> list[_Span]:
    """The same time, each moment of it once."""
    found: list[_Span] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((begin, end))
    return found


def _overlap(one: _Span, other: _Span) -> float:
    return max(0.0, (min(one[1], other[1]) - max(one[0], other[0])).total_seconds())


@dataclass(frozen=True, slots=True)
class Spread:
    """The median over several trials, and between what they lay."""

    median: float
    least: float
    most: float


def spread(values: Sequence[float]) -> Spread:
    return Spread(statistics.median(values), min(values), max(values))
