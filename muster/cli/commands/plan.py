"""`muster plan`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from muster.cli.command import command
from muster.cli.options import FILE, Written, assumption_options, existing_stack, json_option, stack_argument
from muster.cli.output import STDOUT, format_report, note, progress, put, put_json
from muster.errors import ExitCode, MusterError
from muster.model.quantities import parse_duration
from muster.paths import stack_name
from muster.whole_file import write_whole

if TYPE_CHECKING:
    from muster.preview.proposal.evaluate import Budget, Goal, Sample
    from muster.preview.proposal.proposal import Proposal
    from muster.preview.proposal.search import Values
    from muster.replay.recording import Recording

_PREFIXES: Final = {"quota": "", "borrow": "borrow ", "lend": "lend "}
_EXAMPLES = """
muster plan gke-prod --recording last-month.jsonl.gz --goal "p95(prod) < 15m"
muster plan gke-prod --recording last-month.jsonl.gz --goal "p95(vision) < 1h" --keep "p95(speech) < 2h"
muster plan gke-prod --recording last-month.jsonl.gz --goal "preemptions(dev) <= 20" --write
"""
_CODES = {
    ExitCode.DONE: "A change meets the goals, or none is needed.",
    ExitCode.FOUND: "No change that was tried meets the goals; the best one is printed.",
    ExitCode.INTERRUPTED: "Interrupted by Ctrl-C; the best change so far is printed.",
}


@command(examples=_EXAMPLES, codes=_CODES)
@stack_argument
@click.option(
    "--recording",
    type=FILE,
    required=True,
    metavar="RECORDING",
    help="The jobs to play, from `muster record`.",
)
@click.option(
    "--goal",
    "goals",
    multiple=True,
    required=True,
    metavar="GOAL",
    help='What is wanted: "p95(OF) < 15m" (p50, p90, p95, p99 of waits), "preemptions(OF) <= 20" or '
    '"utilization > 80%". OF is `all`, a team, a department or a priority. May be repeated.',
)
@click.option(
    "--keep",
    "keeps",
    multiple=True,
    metavar="GOAL",
    help="What the stack meets now and has to meet with the change, written like a goal. May be repeated.",
)
@click.option(
    "--evaluations",
    type=click.IntRange(min=1),
    default=40,
    show_default=True,
    metavar="N",
    help="Maximum number of replays.",
)
@click.option(
    "--time",
    "limit",
    default="10m",
    show_default=True,
    metavar="TIME",
    help="Time limit of the search, such as 30m; the first replay is finished in any case.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=min(os.cpu_count() or 1, 4),
    show_default="one for each core, at most 4",
    metavar="N",
    help="Replays that run side by side, each on a core and in 150 MiB or more.",
)
@assumption_options
@click.option("--write", is_flag=True, help="Write a change that meets the goals into the stack file.")
@json_option
def cli(
    stack: str,
    *,
    recording: Path,
    goals: tuple[str, ...],
    keeps: tuple[str, ...],
    evaluations: int,
    limit: str,
    jobs: int,
    grace: str,
    durations: str,
    provisioning: tuple[str, ...],
    seed: int,
    write: bool,
    as_json: bool,
) -> ExitCode:
    """Find the smallest change of quotas and limits with which a recording meets goals.

    Changes what teams and departments have as quota, borrow and lend of GPU pools, and no pool's size. Each
    change is played with Kueue's own scheduler, as `muster diff --replay` does. Prints the diff of the stack
    file and its replay. Ctrl-C prints the best change so far. Equal inputs give equal answers, unless the
    time ends the search.
    """
    # What plays takes longer to import than `--help` may, and needs an extra.
    from muster.replay.recording_file import load_recording

    file = existing_stack(stack)
    recorded = load_recording(recording)
    from muster.preview.proposal.evaluate import INTERRUPTED, Budget
    from muster.preview.proposal.proposal import format_proposal, to_json

    budget = Budget(evaluations=evaluations, seconds=_seconds(limit), jobs=jobs)
    assumptions = Written(grace=grace, durations=durations, provisioning=provisioning, seed=seed)
    found = _propose(file, recorded, goals, keeps, assumptions=assumptions, budget=budget, is_written=write)
    if as_json:
        put_json(to_json(found))
    else:
        put(STDOUT, format_proposal(found, format_report))
    if found.stopped == INTERRUPTED:
        return ExitCode.INTERRUPTED
    return ExitCode.DONE if found.is_met else ExitCode.FOUND


def _propose(
    file: Path,
    recording: Recording,
    goals: Sequence[str],
    keeps: Sequence[str],
    *,
    assumptions: Written,
    budget: Budget,
    is_written: bool,
) -> Proposal:
    from muster.config import load
    from muster.preview.proposal.evaluate import Subject, parse_goal
    from muster.preview.proposal.proposal import propose
    from muster.replay.player import ensure_player

    stack = load(file)
    if not stack.scheduler.traits.admits_jobs:
        raise MusterError(
            "plan searches with Kueue alone: it takes dozens of replays, and one with "
            f"{stack.scheduler.proper_name} can take minutes.",
            fix="try a change by hand: muster diff STACK --replay RECORDING.",
        )
    text = file.read_bytes().decode()
    subject = Subject(
        file=file,
        text=text,
        stack=stack,
        recording=recording,
        assumptions=assumptions.parse(),
        goals=[parse_goal(each, stack) for each in goals],
        keeps=[parse_goal(each, stack) for each in keeps],
    )
    with progress():
        program = ensure_player()
    found = propose(
        subject,
        name=stack_name(file),
        program=program,
        budget=budget,
        on_evaluation=_Progress(subject.goals, budget.evaluations),
    )
    if is_written and found.changes and found.is_met:
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


def _seconds(text: str) -> float:
    try:
        return parse_duration(text) / timedelta(seconds=1)
    except ValueError as error:
        raise MusterError(f"--time {text}: {error}.", fix="write it like 30m or 1h30m.") from None
