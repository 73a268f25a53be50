"""Replays changed amounts: from amounts to the text of the stack file, its stack, and what the jobs do there.

A change that the file cannot hold, or that `muster validate` refuses, is not replayed. Equal queues are
replayed once. Responsible for the budget.
"""

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from muster.config.edit import EditError, StackText
from muster.config.project import parse_document
from muster.config.stack import examine
from muster.model.quantities import many
from muster.model.stack import Stack
from muster.preview.proposal.goals import Goal, Sample
from muster.preview.proposal.knobs import Knob, Values, to_space
from muster.preview.proposal.search import Score, StoppedError
from muster.preview.replay.both import queues_of
from muster.replay.assumptions import Assumptions
from muster.replay.figures import Played, run_gpus, wait_of
from muster.replay.player import Playback, PlayerError, PlayerPool, Players, play
from muster.replay.recording import Recording
from muster.replay.side import Side, to_side

INTERRUPTED: Final = "it was interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """At most `evaluations` replays, `jobs` of them side by side, none of them after `seconds`."""

    evaluations: int
    seconds: float
    jobs: int


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What a stack played, and what the goals are measured by."""

    stack: Stack
    playback: Playback
    sample: Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is replayed: a stack file with this text, a recording, and what is wanted of them."""

    file: Path
    text: str
    stack: Stack
    recording: Recording
    assumptions: Assumptions
    goals: Sequence[Goal]
    keeps: Sequence[Goal]


OnEvaluation = Callable[[int, Values, Sample], None]
"""The number of the replay, the amounts, and what came of them."""


class Evaluator:
    """Evaluates amounts within a budget; `evaluations` counts the replays so far."""

    def __init__(
        self, subject: Subject, *, program: Path, budget: Budget, on_evaluation: OnEvaluation
    ) -> None:
        self._subject, self._program, self._budget = subject, program, budget
        self._on_evaluation = on_evaluation
        self._players = Players()
        self._ends = time.monotonic() + budget.seconds
        self._by_digest: dict[str, Evaluation] = {}
        self._jobs: Sequence[Played] = ()
        self._digests: dict[frozenset[tuple[Knob, int]], str] = {}
        self.space = to_space(subject.stack, StackText(subject.text))
        self.evaluations = 0

    def base(self) -> Evaluation:
        """The stack as it is, however long that takes."""
        side = self._side(self._subject.stack)
        with PlayerPool(1, self._players) as pool:
            playback = pool.submit(play, side.world, side.entries, program=self._program).result()
        return self._keep(self.space.values, _digest(side), self._subject.stack, side, playback)

    def __call__(self, tried: Sequence[Values]) -> list[Score | None]:
        found: list[Score | None] = []
        for first in range(0, len(tried), self._budget.jobs):
            batch = tried[first : first + self._budget.jobs]
            try:
                found += self._score(batch)
            except StoppedError as error:
                raise StoppedError(error.why, [*found, *error.found]) from None
        return found

    def text(self, values: Values) -> str:
        """The text of the stack file with these amounts, as far as it can hold them."""
        text = self._subject.text
        for knob, value in sorted(values.items()):
            if value != self.space.values[knob]:
                with suppress(EditError):
                    text = StackText(text).with_value(self.space.paths[knob], value)
        return text

    def stack(self, values: Values) -> Stack | None:
        """The stack with these amounts; None where validation refuses it, or the file does not hold them."""
        text = self.text(values)
        stack, violations = examine(parse_document(text, self._subject.file))
        if stack is None or any(each.level == "error" for each in violations):
            return None
        return stack if to_space(stack, StackText(text)).values == values else None

    def evaluation(self, values: Values) -> Evaluation:
        """That of amounts which were replayed."""
        return self._by_digest[self._digests[frozenset(values.items())]]

    def _score(self, batch: Sequence[Values]) -> list[Score | None]:
        """Of at most as many as are replayed side by side."""
        stacks = [self.stack(values) for values in batch]
        sides = [None if stack is None else self._side(stack) for stack in stacks]
        digests = ["" if side is None else _digest(side) for side in sides]
        self._digests.update(zip((frozenset(each.items()) for each in batch), digests, strict=True))
        fresh = {
            digest: (values, stack, side)
            for digest, values, stack, side in zip(digests, batch, stacks, sides, strict=True)
            if stack is not None and side is not None and digest not in self._by_digest
        }
        left = max(self._budget.evaluations - self.evaluations, 0)
        why = self._play(dict(list(fresh.items())[:left]))
        if left < len(fresh):
            why = why or f"{many(self._budget.evaluations, 'replay is', 'replays are')} done"
        found: list[Score | None] = []
        for digest in digests:
            if digest and digest not in self._by_digest:
                raise StoppedError(why, found)
            found.append(self._to_score(self._by_digest[digest].sample) if digest else None)
        return found

    def _play(self, fresh: Mapping[str, tuple[Values, Stack, Side]]) -> str:
        """Why it ended early, or ""."""
        why = ""
        with PlayerPool(self._budget.jobs, self._players) as pool:
            playing: dict[str, Future[Playback]] = {
                digest: pool.submit(play, side.world, side.entries, program=self._program)
                for digest, (_, _, side) in fresh.items()
            }
            try:
                late = wait(playing.values(), timeout=max(self._ends - time.monotonic(), 0.0)).not_done
                if late:
                    why = "its time is over"
                    self._players.stop()
            except KeyboardInterrupt:
                why = INTERRUPTED
                self._players.stop()
        for digest, (values, stack, side) in fresh.items():
            try:
                self._keep(values, digest, stack, side, playing[digest].result())
            except PlayerError:
                if not why:
                    raise
        return why

    def _keep(self, values: Values, digest: str, stack: Stack, side: Side, playback: Playback) -> Evaluation:
        # The jobs are the same in every change, and a month has ten thousand.
        self._jobs = self._jobs or side.jobs
        sample = to_sample(self._jobs, playback, stack, self._subject.recording)
        self.evaluations += 1
        self._on_evaluation(self.evaluations, values, sample)
        return self._by_digest.setdefault(digest, Evaluation(stack, playback, sample))

    def _to_score(self, sample: Sample) -> Score:
        subject = self._subject
        shortfall, broken = (
            sum(goal.shortfall(sample) for goal in goals) for goals in (subject.goals, subject.keeps)
        )
        return Score(shortfall, broken)

    def _side(self, stack: Stack) -> Side:
        return to_side(queues_of(stack), self._subject.recording, self._subject.assumptions)


def to_sample(jobs: Sequence[Played], playback: Playback, stack: Stack, recording: Recording) -> Sample:
    start, end = recording.header.start, recording.header.end
    gpu_seconds = sum(
        run_gpus(run) * max(min(end, playback.end if run.end is None else run.end) - max(run.start, start), 0)
        for runs in playback.runs.values()
        for run in runs
    )
    every = sum(int(pool.max_gpus) for pool in stack.pools) * (end - start)
    return Sample(
        jobs=jobs,
        waits=[wait_of(job, playback.runs[job.label]) for job in jobs],
        preemptions=[sum(run.is_evicted for run in playback.runs[job.label]) for job in jobs],
        used=gpu_seconds / every if every else 0.0,
    )


def _digest(side: Side) -> str:
    """Of all that the scheduler decides by; the jobs are the same in every change."""
    text = json.dumps([side.world.objects, side.world.config], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
