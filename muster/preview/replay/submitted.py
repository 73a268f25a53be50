"""A job that is not submitted yet, as its file asks for it, and what it could ask for instead.

Responsible for which alternatives there are.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Final

from muster.check import manifests
from muster.check.admission import Admission
from muster.check.demands import Change, Demand, demands, priority_name, queue_name
from muster.check.manifests import Json
from muster.errors import MusterError
from muster.model import names
from muster.model.quantities import many
from muster.model.stack import Stack
from muster.replay.forecast import Forecast
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
