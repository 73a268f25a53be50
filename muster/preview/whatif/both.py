"""Simulates base and head. What is equal in both is simulated once, and the two run in parallel.

Responsible for what each side simulates and for merging the outcomes.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from muster.live.snapshot import Workload
from muster.model.stack import Stack
from muster.preview.whatif import trees
from muster.preview.whatif.scenario import Outcome, Progress, Scenario
from muster.render import kueue

Found = TypeVar("Found")
OnProgress = Callable[[str, str], None]
"""Called with the side and a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rerun:
    """What head has to simulate: the `workloads` and `batches` of cohort trees that differ from base.
    `shared` is the number of trees that do not.
    """

    batches: Sequence[trees.ManifestBatch]
    config: Mapping[str, Any]
    workloads: Sequence[Workload]
    shared: int

    @property
    def is_empty(self) -> bool:
        return not self.workloads and not any(_has_cluster_queue(batch) for batch in self.batches)


class Engine(Protocol):
    """Decides as Kueue does, about one side."""

    def is_parallel(self, scenario: Scenario, /) -> bool:
        """Whether both sides may run at the same time."""

    def simulate(
        self,
        batches: Sequence[trees.ManifestBatch],
        config: Mapping[str, Any],
        scenario: Scenario,
        *,
        progress: Progress,
    ) -> Outcome: ...


def simulate_both(
    base: Stack, head: Stack, scenario: Scenario, engine: Engine, on_progress: OnProgress
) -> tuple[Outcome, Outcome]:
    """The outcomes of base and of head."""
    batches, config = [*trees.manifest_batches(base)], kueue.deciding_config(base)
    rerun = queues_to_rerun(base, head, scenario.snapshot.workloads)
    if rerun.shared:
        on_progress("head", f"{rerun.shared} cohort trees are equal in base and are simulated there")
    first = partial(engine.simulate, batches, config, scenario, progress=partial(on_progress, "base"))
    if rerun.is_empty:
        outcome = first()
        return outcome, outcome
    smaller = replace(scenario, snapshot=replace(scenario.snapshot, workloads=tuple(rerun.workloads)))
    second = partial(
        engine.simulate, rerun.batches, rerun.config, smaller, progress=partial(on_progress, "head")
    )
    if not engine.is_parallel(scenario):
        outcome = first()
        return outcome, merge_outcomes(outcome, second(), rerun.workloads)
    second_run = _Background(second)
    outcome = first()
    return outcome, merge_outcomes(outcome, second_run.result(), rerun.workloads)


def queues_to_rerun(base: Stack, head: Stack, workloads: Sequence[Workload]) -> Rerun:
    """The queues and Workloads that head has to simulate: all of them where Kueue's configuration differs."""
    batches, config = [*trees.manifest_batches(head)], kueue.deciding_config(head)
    before, after = trees.to_trees(trees.manifest_batches(base)), trees.to_trees(batches)
    if config != kueue.deciding_config(base):
        return Rerun(batches=batches, config=config, workloads=workloads, shared=0)
    touched = trees.changed_trees(before, after, workloads)
    is_kept = after.only(touched)
    return Rerun(
        batches=[kept for batch in batches if (kept := [pair for pair in batch if is_kept(pair[1])])],
        config=config,
        workloads=[each for each in workloads if (before.of(each) | after.of(each)) & touched],
        shared=len(after.content.keys() - touched),
    )


def merge_outcomes(base: Outcome, head: Outcome, simulated: Sequence[Workload]) -> Outcome:
    """Head's outcome, completed by base's for the Workloads that head did not simulate."""
    labels = {f"{each.namespace}/{each.name}" for each in simulated}
    lines = {(each.namespace, each.queue) for each in simulated}
    decisions = {label: each for label, each in base.decisions.items() if label not in labels}
    used = {line: each for line, each in base.used.items() if line not in lines}
    return Outcome(
        decisions={**decisions, **head.decisions},
        used={**used, **head.used},
        is_settled=head.is_settled and (base.is_settled or not decisions),
        seconds=head.seconds,
    )


def _has_cluster_queue(batch: trees.ManifestBatch) -> bool:
    return any(manifest["kind"] == "ClusterQueue" for _, manifest in batch)


class _Background(Generic[Found]):
    """Runs in a daemon thread, so that an interrupted caller does not wait for it."""

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
