"""The player decides as Kueue does on an API server: in random worlds the same jobs start at the same time.

The worlds share one control plane and step together. In each step, what happens next in each world is written
to the API server: a job arrives, or one ends whose time the player found. Then Kueue gets the time to settle.
MUSTER_REPLAY_WORLDS is how many worlds; `make test` takes a few.
"""

import asyncio
import os
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final

import pytest

from muster.live.fields import find_condition, is_true, text
from muster.model import names
from muster.replay import stored
from muster.replay.player import PROGRAM, Playback, play
from tests import built, envtest
from tests.envtest import ControlPlane
from tests.envtest.kueue import definitions
from tests.integration.replay.worlds import RandomWorld, flavors, random_world
from tests.integration.whatif import job_simulator, simulate
from tests.integration.whatif.simulate import expected_usage, path_of, wait_for_usage_sync

_WORLDS: Final = int(os.environ.get("MUSTER_REPLAY_WORLDS", "12"))
_JOBS: Final = 10
_PATH: Final = f"/apis/{names.KUEUE_API_VERSION}/workloads"
_MERGE: Final = "application/merge-patch+json"
# Kueue collects for a second what it tries again.
_QUIET_SECONDS: Final = 1.4
_SETTLE_SECONDS: Final = 60.0
# The player tries again a second after a release: the steps of closer events cannot be distinguished.
_APART_SECONDS: Final = 4

Start = tuple[str, int]
"""A job, and the number of the step in which it started."""


@dataclass(slots=True)
class Steps:
    """What happens in a world besides Kueue's decisions: (second, job, whether it arrives or ends)."""

    world: RandomWorld
    playback: Playback
    events: list[tuple[float, str, bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        arrivals = [(each.created.timestamp(), _label(each), True) for each in self.world.workloads]
        ends = [
            (run.end, job, False)
            for job, runs in self.playback.runs.items()
            for run in runs
            if run.end is not None and not run.is_evicted
        ]
        self.events = sorted([*arrivals, *ends])

    @property
    def is_spaced(self) -> bool:
        seconds = [second for second, _, _ in self.events]
        return all(after - before >= _APART_SECONDS for before, after in pairwise(seconds))

    def starts(self) -> list[Start]:
        seconds = [second for second, _, _ in self.events]
        return [
            (job, bisect_right(seconds, run.start) - 1)
            for job, runs in self.playback.runs.items()
            for run in runs
        ]


@dataclass(slots=True)
class Cluster:
    """A real Kueue. `released`: jobs that gave their quota back and wait; `holding`: jobs with quota."""

    plane: ControlPlane
    holding: set[str] = field(default_factory=set)
    starts: list[Start] = field(default_factory=list)
    probes: job_simulator.Probes = field(default_factory=job_simulator.Probes)

    def step(
        self, number: int, events: Mapping[str, bool], stored_as: Mapping[str, tuple[str, bytes]]
    ) -> None:
        arriving = [stored_as[job] for job, arrives in events.items() if arrives]
        asyncio.run(simulate.put(self.plane.etcd, arriving))
        for job, arrives in events.items():
            if not arrives and job in self.holding:
                self._patch(job, {"Finished": ("True", "Succeeded")})
                self.holding.discard(job)
        self._settle(number)

    def _settle(self, number: int) -> None:
        """Until nothing changed for longer than Kueue collects, and Kueue has answered since."""
        end, seen, changed = time.monotonic() + _SETTLE_SECONDS, "", time.monotonic()
        while (now := time.monotonic()) < end:
            found: list[Mapping[str, Any]] = []
            with suppress(OSError):  # the kind is not served for a moment after Kueue has changed it
                found = self.plane.call("GET", _PATH)["items"]
            jobs = [each for each in found if not job_simulator.is_probe(each)]
            version = max((each["metadata"]["resourceVersion"] for each in jobs), key=int, default="")
            if version != seen:
                seen, changed = version, now
            for each in found:
                if job_simulator.is_probe(each):
                    self.probes.observe(each)
                else:
                    self._observe(number, each)
            if now - changed > _QUIET_SECONDS:
                if self.probes.response_time(changed) is not None:
                    return
                if not self.probes.is_open:
                    self.plane.call("POST", job_simulator.PATH, self.probes.next())
            time.sleep(0.1)
        pytest.fail(f"Kueue did not settle in step {number}")

    def _observe(self, number: int, workload: Mapping[str, Any]) -> None:
        job = f"{text(workload, 'metadata', 'namespace')}/{text(workload, 'metadata', 'name')}"
        if is_true(workload, "Finished") or not is_true(workload, "Admitted"):
            return
        if is_true(workload, "Evicted"):
            self.holding.discard(job)
            # As every job integration does.
            message = text(find_condition(workload, "Evicted"), "message")
            self._patch(
                job,
                {"QuotaReserved": ("False", "Pending"), "Admitted": ("False", "NoReservation")},
                message=message,
                admission=None,
            )
        elif job not in self.holding:
            self.holding.add(job)
            self.starts.append((job, number))

    def _patch(
        self, job: str, changes: Mapping[str, tuple[str, str]], *, message: str = "", **status: Any
    ) -> None:
        namespace, name = job.split("/")
        path = f"/apis/{names.KUEUE_API_VERSION}/namespaces/{namespace}/workloads/{name}"
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        kept = [
            each
            for each in self.plane.call("GET", path)["status"]["conditions"]
            if each["type"] not in changes
        ]
        fresh = [
            {"type": kind, "status": value, "reason": reason, "message": message, "lastTransitionTime": now}
            for kind, (value, reason) in changes.items()
        ]
        body = {"status": {**status, "conditions": [*kept, *fresh]}}
        self.plane.call("PATCH", f"{path}/status", body, content_type=_MERGE)


def _label(workload: Any) -> str:
    return f"{workload.namespace}/{workload.name}"


@pytest.fixture(scope="module")
def steps() -> list[Steps]:
    program = built.program(PROGRAM) or built.absent(PROGRAM, build=f"muster local build --only {PROGRAM}")
    worlds = (random_world(number, jobs=_JOBS) for number in range(_WORLDS))
    found = [Steps(each, play(each.world, each.entries, program=program)) for each in worlds]
    return [each for each in found if each.is_spaced]


@pytest.fixture(scope="module")
def cluster(steps: Sequence[Steps], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    programs = built.programs(("etcd", "kube-apiserver", "kueue"), ("kueue-crds", "provisioningrequest-crd"))
    config = {
        "apiVersion": names.KUEUE_CONFIG_API_VERSION,
        "kind": "Configuration",
        "integrations": {"frameworks": ["batch/job"]},
        "waitForPodsReady": {"timeout": "8760h", "recoveryTimeout": "8760h", "blockAdmission": False},
        "clientConnection": {"qps": 2000, "burst": 4000},
    }
    objects = [*job_simulator.probe_objects(), *flavors()]
    objects += [each for step in steps for each in step.world.objects]
    folder = tmp_path_factory.mktemp("replay")
    with envtest.control_plane(folder, programs, kinds=definitions(programs)) as plane:
        for each in objects:
            plane.call("POST", path_of(each), each)
        with envtest.kueue(plane, programs, config=config):
            assert wait_for_usage_sync(plane, expected_usage(objects, []))
            yield Cluster(plane)


def test_jobs_start_in_the_same_order_as_on_an_api_server(steps: list[Steps], cluster: Cluster) -> None:
    stored_as = {
        _label(each): (stored.key(each), stored.value(each))
        for step in steps
        for each in step.world.workloads
    }
    for number in range(max(len(step.events) for step in steps)):
        now = [step.events[number] for step in steps if number < len(step.events)]
        cluster.step(number, {job: arrives for _, job, arrives in now}, stored_as)
    played, decided = Counter(start for step in steps for start in step.starts()), Counter(cluster.starts)
    equal, total = (played & decided).total(), max(played.total(), decided.total())
    differing = sorted({job.split("/")[0] for job, _ in (played - decided) + (decided - played)})
    preempted = sum(step.playback.preemptions for step in steps)
    said = f"{len(steps)} worlds: {equal} of {total} starts equal, {preempted} preemptions"
    print(f"{said}; differing: {differing}")
    assert preempted > len(steps) / 2
    assert equal >= 0.99 * total, f"{equal} of {total} starts; {played - decided} became {decided - played}"
