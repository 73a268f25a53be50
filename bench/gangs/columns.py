"""The figures that are shown, each with its unit and the way to it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bench.gangs.figures import Latency
from bench.gangs.results import Figure, controllers
from bench.gangs.trial import Trial


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    unit: str
    figure: Figure
    digits: int = 1
    is_more_better: bool = False


def _milliseconds(name: str, percent: str) -> Figure:
    def figure(trial: Trial) -> float | None:
        found: Latency | None = getattr(trial, name)
        return None if found is None else 1000 * float(getattr(found, percent))

    return figure


def _each(total: float, trial: Trial) -> float | None:
    return total / trial.admitted if trial.admitted else None


COLUMNS: Final[Sequence[Column]] = (
    Column("admitted", "gangs/s", lambda trial: trial.throughput, is_more_better=True),
    Column("quota to request, p50", "ms", _milliseconds("to_request", "p50"), digits=0),
    Column("quota to request, p99", "ms", _milliseconds("to_request", "p99"), digits=0),
    Column("Provisioned to Ready, p50", "ms", _milliseconds("to_ready", "p50"), digits=0),
    Column("Provisioned to Ready, p99", "ms", _milliseconds("to_ready", "p99"), digits=0),
    Column("calls a gang", "", lambda trial: _each(sum(each.calls for each in trial.agents.values()), trial)),
    Column(
        "written a gang",
        "KiB",
        lambda trial: _each(sum(each.sent for each in trial.agents.values()) / 1024, trial),
    ),
    Column("wire a gang", "KiB", lambda trial: _each(sum(trial.wire.values()) / 1024, trial), digits=0),
    Column(
        "CPU a gang",
        "ms",
        lambda trial: _each(1000 * sum(each.cpu for each in controllers(trial).values()), trial),
        digits=0,
    ),
    Column(
        "memory, peak",
        "MiB",
        lambda trial: sum(each.peak for each in controllers(trial).values()) / 2**20,
        digits=0,
    ),
    Column(
        "quota-time lost",
        "%",
        lambda trial: None if trial.lost_share is None else 100 * trial.lost_share,
        digits=0,
    ),
)
