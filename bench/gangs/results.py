"""All trials, of one run or of several, as one JSON file: what the table and the plot are made of.

Kept after every trial, so that what an interrupted run has measured is not lost. A run that adds to an
earlier one takes the place of its own pairs of case and contender alone, each when its first trial is there.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from bench.gangs.figures import Spread, spread
from bench.gangs.machine import Machine
from bench.gangs.trial import Trial
from bench.gangs.variants import ALL

_ORDER: Final = tuple(each.name for each in ALL)


@dataclass(slots=True)
class Results:
    """`alone`: figures of ours that have no counterpart, by name. `failed`: trials whose plane did not come
    up or did not last, and why.
    """

    machine: Machine
    when: str
    trials: list[Trial] = field(default_factory=list)
    alone: dict[str, dict[str, float]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    def cases(self) -> list[str]:
        """Each kind together, the small before the large."""
        return sorted({trial.case for trial in self.trials}, key=_kind_and_size)

    def contenders(self, case: str) -> list[str]:
        """In one order, whichever came first."""
        found = {trial.contender for trial in self.of(case)}
        return [name for name in _ORDER if name in found] + sorted(found.difference(_ORDER))

    def of(self, case: str, contender: str | None = None) -> list[Trial]:
        return [trial for trial in self.trials if trial.case == case and contender in (None, trial.contender)]

    def rounds(self, case: str) -> list[dict[str, Trial]]:
        """Of each round its trials by contender, as far as it is known which took turns."""
        found: dict[str, dict[str, Trial]] = {}
        for trial in self.of(case):
            if trial.round:
                found.setdefault(trial.round, {})[trial.contender] = trial
        return list(found.values())

    def take(self, trial: Trial, *, replaces: bool) -> None:
        """`replaces`: what is known of this case and contender is from an earlier run, and goes."""
        if replaces:
            pair = (trial.case, trial.contender)
            self.trials = [each for each in self.trials if (each.case, each.contender) != pair]
        self.trials.append(trial)

    def merge(self, other: "Results", *, replaces: bool = True) -> None:
        """Everything of `other`, in the place of what is known of the same, or as further rounds of it."""
        for case in other.cases():
            for contender in other.contenders(case):
                for number, trial in enumerate(other.of(case, contender)):
                    self.take(dated(trial, other.when), replaces=replaces and number == 0)
        self.alone |= other.alone
        self.failed += other.failed

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")


def load(path: Path) -> Results:
    """What an earlier run has left; raises msgspec.ValidationError for what is none."""
    found = msgspec.json.decode(path.read_bytes(), type=Results)
    found.trials = [dated(trial, found.when) for trial in found.trials]
    return found


def dated(trial: Trial, when: str) -> Trial:
    """With the day of its run, where it has no date of its own."""
    return trial if trial.when else replace(trial, when=when)


Figure = Callable[[Trial], float | None]


def over(trials: Sequence[Trial], figure: Figure) -> Spread | None:
    """One figure over several trials; None where no trial has it."""
    values = [value for trial in trials if (value := figure(trial)) is not None]
    return spread(values) if values else None


def controllers(trial: Trial) -> dict[str, Any]:
    """Usage of the controllers alone: without the API server and its store."""
    return {name: each for name, each in trial.usage.items() if name in trial.wire}


def _kind_and_size(case: str) -> tuple[str, list[int]]:
    """`cohorts-5x6x20` is of the kind `cohorts` and of the size 5, 6, 20."""
    kind, _, size = case.partition("-")
    return kind, [int(number) for number in size.split("x") if number.isdigit()]
