"""What-if for stacks that Kueue schedules: Kueue's own scheduler decides about both sides, in logical time.

First the objects that it decides by. Then how a snapshot becomes jobs of the player, and its runs decisions.
"""

import time
from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path
from typing import Final

from muster.live.fields import text
from muster.live.snapshot import State, Workload
from muster.model import names
from muster.model.queues import Team
from muster.model.stack import Stack
from muster.preview.whatif.scenario import Decision, Outcome, Scenario, WorkloadState
from muster.render import kueue
from muster.render.manifest import Manifest
from muster.replay import stored
from muster.replay.player import Entry, Playback, PlayedRun, PlayerPool, UnplayableError, World, play

# In the order in which they refer to each other.
_KINDS: Final = (
    "Namespace",
    "Topology",
    "ResourceFlavor",
    "WorkloadPriorityClass",
    "Cohort",
    "ClusterQueue",
    "LocalQueue",
)
# With 1,000 queues and 10,000 Workloads, 128 MiB mean three times the CPU time.
_MEMORY: Final = 512
_STOPS: Final = ("ClusterQueue", "LocalQueue")


def queue_objects(stack: Stack) -> list[Manifest]:
    """The objects of a stack that Kueue decides by. Admission checks are left out and count as Ready, because
    whether a cloud has capacity cannot be known.
    """
    every = (_without_checks(each) for each in _manifests(stack) if each["kind"] in _KINDS)
    return sorted(every, key=lambda each: _KINDS.index(each["kind"]))


def _manifests(stack: Stack) -> Iterator[Manifest]:
    yield from kueue.flavors(stack)
    yield from kueue.priority_classes(stack)
    created = set()
    for teams in kueue.by_department(stack).values():
        for objects in teams.values():
            created |= {each["metadata"]["name"] for each in objects if each["kind"] == "Namespace"}
            yield from objects
    for _, team in stack.teams():
        yield from (_existing(name, team) for name in team.namespaces if name not in created)


def _existing(namespace: str, team: Team) -> Manifest:
    """A namespace that the stack does not create. Its labels are those that the team's queue asks for."""
    selector = team.kueue.namespace_selector
    labels = dict(selector.match_labels) if selector else {}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}}


def _without_checks(manifest: Manifest) -> Manifest:
    if manifest["kind"] != "ClusterQueue":
        return manifest
    spec = {key: value for key, value in manifest["spec"].items() if key != "admissionChecksStrategy"}
    return {**manifest, "spec": spec}


def simulate_both(base: Stack, head: Stack, scenario: Scenario, *, program: Path) -> tuple[Outcome, Outcome]:
    """The outcomes of both. UnplayableError where Kueue on an API server would decide otherwise."""
    with PlayerPool(2) as pool:
        before, after = (pool.submit(_simulate, each, scenario, program=program) for each in (base, head))
        return before.result(), after.result()


def _simulate(stack: Stack, scenario: Scenario, *, program: Path) -> Outcome:
    started = time.monotonic()
    objects = queue_objects(stack)
    _refuse_drained(objects)
    world = World(objects=objects, config=kueue.deciding_config(stack), memory=_MEMORY)
    played = play(world, _entries(scenario), program=program)
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
    found = scenario.seconds(workload.namespace)
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
    if scenario.durations and runs and before.state is State.PENDING:
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
