"""A job that is not submitted yet, what it could ask for instead, and its forecast in words and as JSON."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from muster.check import manifests
from muster.check.admission import Admission
from muster.check.demands import Change, Demand, demands, priority_name, queue_name
from muster.check.manifests import Json
from muster.errors import MusterError
from muster.model import names
from muster.model.quantities import many
from muster.model.stack import Scheduler, Stack
from muster.preview.compare.replay import format_seconds
from muster.replay.figures import NEVER
from muster.replay.forecast import Forecast, Group, Nodes, Outlook
from muster.replay.recording import Job, PodSet

_ID: Final = "submitted"
_MILLICORES: Final = 1000
_SIZES: Final = ((Fraction(1, 2), "half the workers"), (Fraction(2), "twice the workers"))
_MOST: Final = 3
"""Pools, and priorities, that are tried."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """The job with one change. `change` is a noun phrase."""

    change: str
    job: Job


@dataclass(frozen=True, slots=True)
class Submitted:
    job: Job
    alternatives: tuple[Alternative, ...]


def load_submitted(stack: Stack, file: Path, team: str, *, at: float) -> Submitted:
    """The job of a file as its team would submit it at a moment. MusterError where it can start nowhere."""
    admission = Admission(stack, team)
    bodies = manifests.read(manifests.read_text(file), str(file))
    found = [(body, groups) for body in map(admission.fixed, bodies) if (groups := demands(admission, body))]
    if len(found) != 1:
        raise MusterError(
            f"{file}: {len(found)} of its objects are jobs.",
            fix="name a file with one job, such as a RayJob.",
        )
    body, groups = found[0]
    job = Job(
        id=_ID,
        team=body["metadata"]["namespace"],
        queue=queue_name(admission, body),
        created=at,
        pod_sets=_pod_sets(groups),
        priority_class=priority_name(admission, body),
    )
    others = (
        *_sizes(admission, body, job),
        *_pools(admission, body, job, groups),
        *_priorities(admission, job),
    )
    return Submitted(job, others)


def _sizes(admission: Admission, body: Json, job: Job) -> Iterator[Alternative]:
    for workers, words in _SIZES:
        found = _changed(job, demands(admission, body, Change(workers=workers)))
        if found is not None and found.devices != job.devices:
            pods = sum(pods.count for pods in found.pod_sets)
            yield Alternative(f"{words} ({many(pods, 'pod')}, {many(found.devices, 'GPU')})", found)


def _pools(admission: Admission, body: Json, job: Job, groups: Sequence[Demand]) -> Iterator[Alternative]:
    """Other pools than those which its pods with devices may use: the scheduler tries these anyway."""
    with_devices = [group for group in groups if any(map(group.each.get, names.DEVICE_RESOURCES))]
    used = {place.pool for group in with_devices for place in group.places if not place.reason}
    others = [flavor.name for flavor in admission.policy.flavors if flavor.name not in used]
    found = ((pool, _changed(job, demands(admission, body, Change(pool=pool)))) for pool in others)
    usable = [Alternative(f"pool {pool}", each) for pool, each in found if each is not None]
    yield from usable[:_MOST]


def _priorities(admission: Admission, job: Job) -> Iterator[Alternative]:
    """The next higher ones that the team may use."""
    stack = admission.stack
    values = {each.name: each.value for each in stack.priorities}
    team = next(each for _, each in stack.teams() if each.name == admission.team)
    own = values.get(job.priority_class, job.priority)
    higher = sorted((values[name], name) for name in team.priorities or values if values[name] > own)
    for _, name in higher[:_MOST]:
        yield Alternative(f"priority {name}", replace(job, priority_class=name))


def _changed(job: Job, groups: Sequence[Demand]) -> Job | None:
    """None where no pool can take one of its groups, or nothing would change."""
    if any(all(place.reason for place in group.places) for group in groups):
        return None
    found = replace(job, pod_sets=_pod_sets(groups))
    return None if found == job else found


def _pod_sets(groups: Sequence[Demand]) -> tuple[PodSet, ...]:
    return tuple(_pod_set(each) for each in groups)


def _pod_set(demand: Demand) -> PodSet:
    pools = tuple(place.pool for place in demand.places if not place.reason)
    if not pools:
        reasons = "; ".join(f"{place.pool}: {place.reason}" for place in demand.places)
        raise MusterError(
            f"its pods {demand.name} fit no pool, so it never starts: {reasons}.",
            fix="muster check prints what to change.",
        )
    requests = {
        name: _whole(amount * _MILLICORES if name == "cpu" else amount)
        for name, amount in demand.each.items()
    }
    return PodSet(name=demand.name, count=demand.pods, requests=requests, pools=pools)


def _whole(amount: Fraction) -> int:
    return -int(-amount // 1)


# Which changes of a job would let it start sooner, in the same futures.
#
# Responsible for choosing them.

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


_STARTS: Final = {
    Scheduler.KUEUE: "A job that fits the quota starts when its nodes are there.",
    Scheduler.KAI: "KAI leaves some things to chance, so the same seed can give another answer.",
}
_HEADINGS: Final = ("job", "priority", "GPUs", "place", "starts (80 %)")


def format_forecast(found: Prediction | Outlook) -> str:
    lines = _outlook(found) if isinstance(found, Outlook) else _lines(found)
    return "\n".join(lines) + "\n"


def to_json(found: Prediction | Outlook) -> Mapping[str, Any]:
    """Seconds from `at`; null where the job does not start within the futures."""
    return _outlook_to_json(found) if isinstance(found, Outlook) else _prediction_to_json(found)


def _prediction_to_json(found: Prediction) -> Mapping[str, Any]:
    record = {**_record(found.forecast), "assumptions": list(assumptions(found.forecast))}
    if found.alternatives is None:
        return record
    sooner = [
        {"change": each.change, "sooner_in": each.futures, **_record(each.forecast)}
        for each in found.alternatives.sooner
    ]
    return {**record, "alternatives": {"tried": list(found.alternatives.tried), "sooner": sooner}}


def _outlook_to_json(found: Outlook) -> Mapping[str, Any]:
    return {
        "at": found.at,
        "forecasts": [_record(each) for each in found.forecasts],
        "left_out": dict(found.left_out),
        "assumptions": [*_assumptions_of(found)],
    }


def _outlook(found: Outlook) -> Iterator[str]:
    waiting = len(found.forecasts) + sum(found.left_out.values())
    yield f"at {_moment(found.at)}: {many(waiting, 'job')} waiting"
    if found.forecasts:
        yield ""
        yield from _aligned([_HEADINGS, *map(_row, found.forecasts)])
    for reason, count in sorted(found.left_out.items()):
        yield f"Not forecast: {many(count, 'job')} {reason}."
    if found.forecasts:
        yield ""
        yield "Assumed:"
    for each in _assumptions_of(found):
        yield f"  - {each}"


def _assumptions_of(found: Outlook) -> Iterator[str]:
    """Those of one are those of all: the futures are the same."""
    return assumptions(found.forecasts[0]) if found.forecasts else iter(())


def _row(found: Forecast) -> tuple[str, ...]:
    starts = "at once" if found.latest == 0 else _range(found)
    place = f"{found.place} of {found.waiting}"
    return found.job, found.priority, str(found.gpus), place, starts


def _range(found: Forecast) -> str:
    if found.earliest == NEVER:
        return f"later than in {_reach(found)}"
    if found.latest == NEVER:
        return f"in {_wait(found.earliest)} or later"
    if found.earliest == found.latest:
        return f"in {_wait(found.earliest)}"
    return f"in {_wait(found.earliest)} to {_wait(found.latest)}"


def _aligned(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _record(found: Forecast) -> dict[str, Any]:
    record = asdict(found)
    del record["starts"], record["provisioning"], record["notes"]
    for name in ("earliest", "median", "latest"):
        record[name] = None if record[name] == NEVER else record[name]
    return record


def assumptions(found: Forecast) -> Iterator[str]:
    yield (
        f"{many(found.runs, 'future')} of {format_seconds(found.seconds)} (seed {found.seed}) were played by "
        f"{found.scheduler.proper_name}'s scheduler. The interval is the middle 80 % of their starts; "
        "it is an estimate."
    )
    yield (
        "Jobs run as long as others did until that moment, given how long they have run already: those of "
        "the same team and priority, the more of them have ended, then the team's, then all."
    )
    yield "New jobs arrive as on days of the two weeks before, drawn at random."
    if found.learned_until < found.at:
        yield (
            "What runs and waits is read from the cluster. Durations, arrivals and provisioning times are "
            f"those of the recording, which ends {_moment(found.learned_until)}."
        )
    yield from found.provisioning
    yield f"Quotas are those of the stack. {_STARTS[found.scheduler]}"
    yield from found.notes
    for reason, count in sorted(found.left_out.items()):
        yield f"Not played: {many(count, 'job')} {reason}."


def _lines(prediction: Prediction) -> Iterator[str]:
    found = prediction.forecast
    yield f"{found.job}: {found.team}, {found.priority}, {many(found.gpus, 'GPU')}"
    yield f"at {_moment(found.at)}"
    yield ""
    yield f"Starts {_interval(found)}"
    yield from map(_nodes, found.nodes)
    if found.unstarted:
        yield f"  in {found.unstarted} of {found.runs} futures it does not start within {_reach(found)}"
    yield f"Place  {found.place} of {found.waiting} in its queue"
    yield from _groups("Ahead of it", found.ahead)
    yield from _groups("What runs now and has ended when it starts, on average", found.ends)
    yield from _groups("What it preempts, on average", found.preempts)
    yield from _alternatives(prediction.alternatives)
    yield ""
    yield "Assumed:"
    for each in assumptions(found):
        yield f"  - {each}"


def _nodes(found: Nodes) -> str:
    if found.low == found.high:
        return f"  of this, nodes of {found.pool} take {_wait(found.low)}"
    return f"  of this, nodes of {found.pool} took {_wait(found.low)} to {_wait(found.high)} in the recording"


def _alternatives(found: Alternatives | None) -> Iterator[str]:
    if found is None or not found.tried:
        return
    if not found.sooner:
        yield f"Nothing that was tried starts sooner: {', '.join(found.tried)}"
        return
    yield "What would start sooner:"
    for each in found.sooner:
        yield f"  {each.change}: {_interval(each.forecast)}"
        yield f"    sooner in {each.futures} of {each.forecast.runs} futures{_victims(each.forecast)}"
    others = [change for change in found.tried if change not in {each.change for each in found.sooner}]
    if others:
        yield f"  not sooner: {', '.join(others)}"


def _victims(found: Forecast) -> str:
    victims = ", ".join(map(_group, found.preempts))
    return f"; it preempts, on average, {victims}" if victims else ""


def _interval(found: Forecast) -> str:
    if found.latest == 0:
        return "at once"
    if found.earliest == found.latest != NEVER:
        return f"in {_wait(found.earliest)} in at least 80 % of the futures: {_clock(found)}"
    if found.earliest == NEVER:
        return f"later than in {_reach(found)}"
    if found.latest == NEVER:
        return f"in {_wait(found.earliest)} or later, maybe after more than {_reach(found)}{_median(found)}"
    return f"in {_wait(found.earliest)} to {_wait(found.latest)} (80 %){_median(found)}"


def _median(found: Forecast) -> str:
    return "" if found.median == NEVER else f", in the median {_wait(found.median)}: {_clock(found)}"


def _clock(found: Forecast) -> str:
    return _moment(found.at + found.median)


def _wait(seconds: float) -> str:
    return format_seconds(seconds)


def _reach(found: Forecast) -> str:
    return format_seconds(found.seconds)


def _moment(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"


def _groups(title: str, groups: Sequence[Group]) -> Iterator[str]:
    if not groups:
        return
    yield f"{title}:"
    for each in groups:
        yield f"  {_group(each)}"


def _group(found: Group) -> str:
    return f"{found.team} {found.priority}: {_count(found.jobs, 'job')}, {_count(found.gpus, 'GPU')}"


def _count(amount: float, noun: str) -> str:
    return many(int(amount), noun) if amount == int(amount) else f"{amount:.1f} {noun}s"
