"""Simulates one side in the player: Kueue's own scheduler without a control plane, in logical time.

Responsible for how a snapshot becomes jobs of the player, and its runs become decisions.
"""

import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from muster.live.fields import text
from muster.live.snapshot import State, Workload
from muster.model import names
from muster.model.quantities import many
from muster.preview.whatif import both
from muster.preview.whatif.scenario import Decision, Outcome, Progress, Scenario, WorkloadState
from muster.render.manifest import Manifest
from muster.replay import stored
from muster.replay.player import Entry, Playback, PlayedRun, PlayerPool, UnplayableError, World, play

# With 1,000 queues and 10,000 Workloads, 128 MiB mean three times the CPU time.
_MEMORY: Final = 512
_STOPS: Final = ("ClusterQueue", "LocalQueue")


@dataclass(frozen=True, slots=True)
class Player:
    """Kueue in a process of its own. `program`: what `ensure_player` returned. `pool`: plays both sides. Its
    block kills what plays when it is left by an error, or by Ctrl-C.
    """

    program: Path
    pool: PlayerPool = field(default_factory=partial(PlayerPool, 2))

    def is_parallel(self, _: Scenario) -> bool:
        return True

    def simulate(
        self,
        batches: Sequence[both.ManifestBatch],
        config: Mapping[str, Any],
        scenario: Scenario,
        *,
        progress: Progress,
    ) -> Outcome:
        """UnplayableError where Kueue on a control plane would decide otherwise."""
        started = time.monotonic()
        objects = [manifest for batch in batches for _, manifest in batch]
        _refuse_drained(objects)
        progress(many(len(scenario.snapshot.workloads), "Workload"))
        world = World(objects=objects, config=config, memory=_MEMORY)
        played = self.pool.submit(play, world, _entries(scenario), program=self.program).result()
        return Outcome(
            decisions=_decisions(scenario, played, queues=_queues(objects)),
            used=_used(scenario, played),
            is_settled=True,
            seconds=time.monotonic() - started,
        )


def _refuse_drained(objects: Sequence[Manifest]) -> None:
    for each in objects:
        if each["kind"] in _STOPS and text(each, "spec", "stopPolicy") == "HoldAndDrain":
            raise UnplayableError(f"{each['kind']} {each['metadata']['name']} drains the work that runs")


def _entries(scenario: Scenario) -> Iterator[Entry]:
    """Those that hold quota come first: all of them arrive at the moment of the snapshot."""
    now = int(scenario.snapshot.taken.timestamp())
    for each in scenario.holding:
        yield Entry(
            workload=stored.holding(each),
            seconds=_seconds(scenario, each),
            ran=round(scenario.ran(each)),
            at=now,
        )
    for each in scenario.waiting:
        yield Entry(workload=stored.pending(each), seconds=_seconds(scenario, each), at=now)


def _seconds(scenario: Scenario, workload: Workload) -> int | None:
    found = None if scenario.clock is None else scenario.clock.seconds(workload.namespace)
    return None if found is None else round(found)


def _queues(objects: Sequence[Manifest]) -> set[tuple[str, str]]:
    """(namespace, name) of every LocalQueue."""
    return {
        (each["metadata"]["namespace"], each["metadata"]["name"])
        for each in objects
        if each["kind"] == "LocalQueue"
    }


def _decisions(scenario: Scenario, played: Playback, *, queues: set[tuple[str, str]]) -> dict[str, Decision]:
    keys = scenario.equivalence_keys()
    reasons: dict[Hashable, str] = {}
    own: dict[str, str] = {}
    for each in scenario.snapshot.workloads:
        label = f"{each.namespace}/{each.name}"
        own[label] = played.reasons.get(label, "")
        if (each.namespace, each.queue) not in queues:
            # Kueue's words (pkg/controller/core/workload_controller.go): not its scheduler says so.
            own[label] = f"LocalQueue {each.queue} doesn't exist"
        if own[label]:
            reasons[keys[stored.uid(each.namespace, each.name)]] = own[label]
    return {
        label: _decision(
            scenario,
            each,
            played.runs[label],
            why=own[label] or reasons.get(keys[stored.uid(each.namespace, each.name)], ""),
        )
        for each in scenario.snapshot.workloads
        if (label := f"{each.namespace}/{each.name}") in played.runs
    }


def _decision(scenario: Scenario, before: Workload, runs: Sequence[PlayedRun], *, why: str) -> Decision:
    state = _state(before, runs)
    preemption = next((run for run in runs if run.is_evicted and run.reason), None)
    waited = None
    if scenario.clock is not None and runs and before.state is State.PENDING:
        waited = float(runs[0].start - int(scenario.snapshot.taken.timestamp()))
    return Decision(
        namespace=before.namespace,
        name=before.name,
        state=state,
        why=why if state is WorkloadState.PENDING else "",
        preemptor=preemption.by if preemption else "",
        how=preemption.reason if preemption else "",
        waited=waited,
    )


def _state(before: Workload, runs: Sequence[PlayedRun]) -> WorkloadState:
    if not runs or runs[-1].is_evicted:
        return WorkloadState.INACTIVE if before.state is State.INACTIVE else WorkloadState.PENDING
    if runs[-1].end is not None:
        return WorkloadState.ENDED
    return WorkloadState.RUNNING if before.is_holding and len(runs) == 1 else WorkloadState.ADMITTED


def _used(scenario: Scenario, played: Playback) -> dict[tuple[str, str], dict[str, int]]:
    """GPUs and TPU chips of all Workloads that hold quota at the end, by LocalQueue and flavor."""
    used: dict[tuple[str, str], dict[str, int]] = {}
    for each in scenario.snapshot.workloads:
        runs = played.runs.get(f"{each.namespace}/{each.name}", ())
        if not runs or runs[-1].end is not None:
            continue
        line = used.setdefault((each.namespace, each.queue), {})
        for flavor, amounts in runs[-1].usage.items():
            found = sum(amounts.get(device, 0) for device in names.DEVICE_RESOURCES)
            if found:
                line[flavor] = line.get(flavor, 0) + found
    return used
