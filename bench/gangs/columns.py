"""The figures that are shown, each with its unit and the way to it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bench.gangs.figures import Latency
from bench.gangs.results import Figure, controllers
from bench.gangs.trial import Trial

_FEW: Final = 100
"""Of fewer samples than this the 99th percentile by nearest rank is the largest one."""


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    unit: str
    figure: Figure
    digits: int = 1
    is_more_better: bool = False
    latency: str = ""
    """The trial's Latency that it is a percentile of."""

    def named(self, trials: Sequence[Trial]) -> str:
        """The title as it is true of these trials: of how many samples a percentile is, and that of a few the
        99th is the largest.
        """
        counts = [each.count for trial in trials if (each := self._latency(trial)) and each.count]
        if not counts:
            return self.title
        few, many = min(counts), max(counts)
        title = self.title.replace("p99", "max") if few < _FEW else self.title
        return f"{title} (n = {few:,})" if few == many else f"{title} (n = {few:,} to {many:,})"

    def _latency(self, trial: Trial) -> Latency | None:
        found: Latency | None = getattr(trial, self.latency) if self.latency else None
        return found


def _percentile(title: str, name: str, percent: str) -> Column:
    def figure(trial: Trial) -> float | None:
        found: Latency | None = getattr(trial, name)
        return None if found is None else 1000 * float(getattr(found, percent))

    return Column(f"{title}, {percent}", "ms", figure, digits=0, latency=name)


def _each(total: float, trial: Trial) -> float | None:
    """None of a trial that was cut short: the work for gangs that were not admitted yet is in its total."""
    return total / trial.admitted if trial.admitted and not trial.is_cut_short else None


COLUMNS: Final[Sequence[Column]] = (
    Column("admitted", "gangs/s", lambda trial: trial.throughput, is_more_better=True),
    _percentile("quota to request", "to_request", "p50"),
    _percentile("quota to request", "to_request", "p99"),
    _percentile("Provisioned to Ready", "to_ready", "p50"),
    _percentile("Provisioned to Ready", "to_ready", "p99"),
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
    Column("retries of stocked-out gangs", "", lambda trial: trial.retries, digits=0),
)
COMPARED: Final = tuple(each for each in COLUMNS if each.title in ("admitted", "CPU a gang"))
"""What is also shown as a multiple of the built-in's, round by round."""
