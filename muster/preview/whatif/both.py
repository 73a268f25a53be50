"""Base and head: what is the same on both is decided once, and the two are decided side by side.

Decides what each side is asked, and puts the answers together. Leaves one side to simulate.py.
"""

import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from muster.live.snapshot import Workload
from muster.local.envtest import Programs
from muster.model.stack import Stack
from muster.preview.whatif import fixtures, trees
from muster.preview.whatif.outcome import Outcome
from muster.preview.whatif.simulate import SimulationInput, Workspace, simulate

Found = TypeVar("Found")
OnProgress = Callable[[str, str], None]
"""Of which side, what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rerun:
    """What head is asked after base. `workloads` and `acts`: of trees that base does not answer for."""

    acts: Sequence[fixtures.ManifestBatch]
    config: Mapping[str, Any]
    workloads: Sequence[Workload]
    shared: int

    @property
    def is_nothing(self) -> bool:
        return not self.workloads and not any(_has_cluster_queue(act) for act in self.acts)


def simulate_both(
    base: Stack, head: Stack, question: SimulationInput, programs: Programs, say: OnProgress
) -> tuple[Outcome, Outcome]:
    """Base's outcome and head's."""
    acts, config = [*fixtures.manifest_batches(base)], fixtures.kueue_configuration(base)
    again = queues_to_rerun(base, head, question.snapshot.workloads)
    if again.shared:
        say("head", f"{again.shared} cohort trees are as in base, and decided there")
    with tempfile.TemporaryDirectory(prefix="muster-what-if-", ignore_cleanup_errors=True) as folder:
        rooms = {
            side: Workspace(Path(folder) / side, programs, partial(say, side)) for side in ("base", "head")
        }
        for room in rooms.values():
            room.folder.mkdir()
        first = partial(simulate, acts, config, question, room=rooms["base"])
        if again.is_nothing:
            outcome = first()
            return outcome, outcome
        smaller = replace(question, snapshot=replace(question.snapshot, workloads=tuple(again.workloads)))
        second = partial(simulate, again.acts, again.config, smaller, room=rooms["head"])
        if question.clock is not None:
            # Kueue's own seconds count as the jobs' many times over: each side has the machine to itself.
            outcome = first()
            return outcome, merge_outcomes(outcome, second(), again.workloads)
        aside = _Background(second)
        outcome = first()
        return outcome, merge_outcomes(outcome, aside.result(), again.workloads)


def queues_to_rerun(base: Stack, head: Stack, workloads: Sequence[Workload]) -> Rerun:
    """All of head where Kueue itself is configured differently."""
    acts, config = [*fixtures.manifest_batches(head)], fixtures.kueue_configuration(head)
    before, after = trees.to_trees(fixtures.manifest_batches(base)), trees.to_trees(acts)
    if config != fixtures.kueue_configuration(base):
        return Rerun(acts=acts, config=config, workloads=workloads, shared=0)
    touched = trees.changed_trees(before, after, workloads)
    is_kept = after.only(touched)
    return Rerun(
        acts=[kept for act in acts if (kept := [pair for pair in act if is_kept(pair[1])])],
        config=config,
        workloads=[each for each in workloads if (before.of(each) | after.of(each)) & touched],
        shared=len(after.content.keys() - touched),
    )


def merge_outcomes(base: Outcome, head: Outcome, asked: Sequence[Workload]) -> Outcome:
    """Head's answer, and base's for whatever head was not asked about."""
    labels = {f"{each.namespace}/{each.name}" for each in asked}
    lines = {(each.namespace, each.queue) for each in asked}
    decisions = {label: each for label, each in base.decisions.items() if label not in labels}
    used = {line: each for line, each in base.used.items() if line not in lines}
    return Outcome(
        decisions={**decisions, **head.decisions},
        used={**used, **head.used},
        is_settled=head.is_settled and (base.is_settled or not decisions),
        seconds=head.seconds,
    )


def _has_cluster_queue(act: fixtures.ManifestBatch) -> bool:
    return any(manifest["kind"] == "ClusterQueue" for _, manifest in act)


class _Background(Generic[Found]):
    """Runs beside the caller. A caller that ends does not wait for it: what it started ends with both."""

    def __init__(self, run: Callable[[], Found]) -> None:
        self._future: Future[Found] = Future()
        threading.Thread(target=self._run, args=(run,), daemon=True).start()

    def _run(self, run: Callable[[], Found]) -> None:
        try:
            self._future.set_result(run())
        except BaseException as error:
            self._future.set_exception(error)

    def result(self) -> Found:
        return self._future.result()
