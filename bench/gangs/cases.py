"""The cases: what is put in, how fast, and when a trial has taken too long."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from bench.gangs import shapes
from bench.gangs.shapes import Gang, Shape
from muster.model import names

# Kueue's own performance shape (see shapes.kueues_own).
_KUEUES: Final = Shape(cohorts=5, queues=6, quota=20, borrow=100, preempts=True)
_SLOTS: Final = 4
_RUNS: Final = 5.0
# Runnable gangs arrive at three quarters of the rate that the quota allows, so a controller can keep up.
_EVERY: Final = _RUNS / _SLOTS / 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`rate`: gangs a second, None for all at once. `delay`: seconds until the cloud answers. `most`: seconds
    after which a trial is cut short. `slots`: gangs that fit at a time, where scarcity is measured.
    """

    name: str
    shape: Shape
    gangs: Callable[[], Iterator[Gang]]
    rate: float | None = None
    delay: float = 0.0
    most: float = 600.0
    slots: int | None = None


def burst(count: int) -> Case:
    """All at once into ample quota: how many gangs a second are admitted."""
    shape = Shape()
    return Case(
        name=f"burst-{count}",
        shape=shape,
        gangs=lambda: shapes.plain(shape, count),
        most=max(300.0, count / 2),
    )


def two_shapes(count: int) -> Case:
    """All at once, each of a head in one pool and a worker in another: two requests, the second when the
    first is Accepted. The built-in check makes one request for both.
    """
    shape = Shape(pools=(shapes.HEAD, shapes.POOL))
    return Case(
        name=f"two-shapes-{count}",
        shape=shape,
        gangs=lambda: shapes.split(shape, count),
        most=max(300.0, count / 2),
    )


def shared(count: int) -> Case:
    """All at once, on nodes without a lease, which our controller has to assign itself, as on EKS."""
    shape = Shape(provisioning=names.BEST_EFFORT_ATOMIC_CLASS)
    return Case(
        name=f"shared-{count}",
        shape=shape,
        gangs=lambda: shapes.plain(shape, count),
        most=max(300.0, count / 2),
    )


def steady(count: int, rate: float) -> Case:
    """At a rate that either check keeps up with: how long each step of a gang takes."""
    shape = Shape()
    return Case(
        name=f"steady-{count}",
        shape=shape,
        gangs=lambda: shapes.plain(shape, count),
        rate=rate,
        delay=0.5,
        most=300.0 + count / rate,
    )


def kueues_own(each: int) -> Case:
    """5 cohorts of 6 ClusterQueues with `each` Workloads, which run, end, and preempt one another."""
    return Case(
        name=f"cohorts-5x6x{each}",
        shape=_KUEUES,
        gangs=lambda: shapes.kueues_own(_KUEUES, each),
        most=max(600.0, each * 10.0),
    )


def scarcity(runnable: int) -> Case:
    """Quota for four gangs; four come first that the cloud has no stock for, then all at once some that could
    run. It is over before a check that frees the quota tries again: see `stockout` for that.
    """
    shape = Shape(queues=1, quota=_SLOTS)
    return Case(
        name=f"scarcity-{runnable}",
        shape=shape,
        gangs=lambda: shapes.scarce(shape, out=_SLOTS, runnable=runnable, runs=_RUNS),
        slots=_SLOTS,
        most=300.0 + _RUNS * runnable,
    )


def stockout(runnable: int) -> Case:
    """The same four in the same quota, and then one that could run every 1.7 s: with 180 of them for five
    minutes, in which either controller retries the four twice or more. (Both pauses begin with a minute and
    double.)
    """
    shape = Shape(queues=1, quota=_SLOTS)
    return Case(
        name=f"stockout-{runnable}",
        shape=shape,
        gangs=lambda: shapes.scarce(shape, out=_SLOTS, runnable=runnable, runs=_RUNS, every=_EVERY),
        slots=_SLOTS,
        most=300.0 + 5 * _EVERY * runnable,
    )
