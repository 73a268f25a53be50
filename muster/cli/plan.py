"""Carries out `muster plan`. Apart from the command, because its imports take longer than `--help` may."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from muster.cli.options import Written
from muster.cli.output import note, progress
from muster.config import load
from muster.errors import MusterError
from muster.model.stack import Scheduler
from muster.paths import stack_name
from muster.preview.proposal.evaluate import INTERRUPTED, Budget, Subject
from muster.preview.proposal.goals import Goal, Sample, parse_goal
from muster.preview.proposal.knobs import Key, Values
from muster.preview.proposal.proposal import Proposal, propose
from muster.replay.player import ensure_player
from muster.replay.recording import Recording
from muster.whole_file import write_whole

__all__ = ["INTERRUPTED", "Asked", "plan"]

_PREFIXES: Final = {Key.QUOTA: "", Key.BORROW: "borrow ", Key.LEND: "lend "}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The stack file, the recording, and the other options as they were written. `is_written`: the stack file
    gets the change.
    """

    file: Path
    recording: Recording
    goals: Sequence[str]
    keeps: Sequence[str]
    assumptions: Written
    budget: Budget
    is_written: bool


def plan(asked: Asked) -> Proposal:
    file = asked.file
    stack = load(file)
    if stack.scheduler is not Scheduler.KUEUE:
        raise MusterError(
            "plan searches with Kueue alone: it takes dozens of replays, and one with KAI can take minutes.",
            fix="try a change by hand: muster diff STACK --replay RECORDING.",
        )
    text = file.read_bytes().decode()
    subject = Subject(
        file=file,
        text=text,
        stack=stack,
        recording=asked.recording,
        assumptions=asked.assumptions.parse(),
        goals=[parse_goal(each, stack) for each in asked.goals],
        keeps=[parse_goal(each, stack) for each in asked.keeps],
    )
    with progress():
        program = ensure_player()
    found = propose(
        subject,
        name=stack_name(file),
        program=program,
        budget=asked.budget,
        on_evaluation=_Progress(subject.goals, asked.budget.evaluations),
    )
    if asked.is_written and found.changes and found.is_met:
        if file.read_bytes().decode() != text:
            raise MusterError(
                f"{file} has changed since the search began, so it was not written.",
                fix="run the search again.",
            )
        write_whole(file, found.text.encode())
        note(f"{file} is written.")
    return found


class _Progress:
    """A line for each replay: the goals' values, and what was tried."""

    def __init__(self, goals: Sequence[Goal], most: int) -> None:
        self._goals, self._most = goals, most
        self._base: Values | None = None

    def __call__(self, number: int, values: Values, sample: Sample) -> None:
        self._base = base = self._base or values
        reached = ", ".join(f"{each.text}: {each.format(each.value(sample))}" for each in self._goals)
        changed = [
            f"{knob.owner} {_PREFIXES[knob.key]}{base[knob]} → {value} {knob.pool}"
            for knob, value in sorted(values.items())
            if value != base[knob]
        ]
        note(f"{number:3}/{self._most}  {reached}  ({', '.join(changed) or 'the stack as it is'})")
