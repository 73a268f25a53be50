"""Measures how well a recording of a real Kueue replays: its order of starts, and its waits.

    python -m bench.recorded --jobs 40 > table.md

A bare control plane runs etcd, the API server and Kueue. Jobs of three teams with borrowing and two
priorities arrive; this program acts as the jobs, which end after their time and give their quota back when
they are preempted. Arrivals and ends are four seconds apart. `muster record` watches. Then the player plays
the recording in the same queues.

Start order: of all pairs of recorded starts in different seconds, the share that the player starts in this
order or in the same second. A start that only one side has makes all of its pairs wrong. Error of a wait:
the difference of both waits as a share of the recorded one, of jobs that waited.
"""

import argparse
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any, Final

from muster import config
from muster.live.conditions import find_condition, is_true
from muster.live.fields import text
from muster.live.snapshot import PodSet, State, Toleration, Workload
from muster.local import envtest
from muster.local.envtest import ControlPlane, Programs
from muster.local.envtest.kueue import define
from muster.model import names
from muster.model.stack import Stack
from muster.preview.replay.queues import queues_of
from muster.preview.whatif import fixtures
from muster.preview.whatif.readiness import expected_usage, wait_for_usage_sync
from muster.render.kueue import deciding_config
from muster.replay import stored
from muster.replay.assumptions import Assumptions
from muster.replay.playback import Playback
from muster.replay.player import Entry, World, ensure_player, play
from muster.replay.reader import load_recording
from muster.replay.recording import End, Recording
from muster.replay.side import to_side

PROGRAMS: Final = ("etcd", "kube-apiserver", "kueue")
ASSETS: Final = ("kueue-crds", "provisioningrequest-crd")
_TEAMS: Final = ("vision", "speech", "robotics")
_POOL: Final = "l4"
_QUOTA: Final = 4
_WORKLOADS: Final = f"/apis/{names.KUEUE_API_VERSION}/workloads"
_MERGE: Final = "application/merge-patch+json"
_PAUSE: Final = 0.1
_GRACE: Final = 1
# Kueue collects for a second what it tries again, and a victim takes a second to go.
_APART: Final = 4
# A job that never starts would keep the measurement waiting: all jobs one after the other take less.
_PATIENCE: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob:
    """`at` and `seconds`: from the start, and while it runs."""

    name: str
    team: str
    at: int
    gpus: int
    seconds: int
    priority: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """`order` is the share of pairs in the same order, `waits` the errors of the waits, in seconds and as
    shares of the recorded wait.
    """

    starts: int
    preemptions: int
    order: float
    waits: Sequence[tuple[float, float]]

    @property
    def median_error(self) -> float:
        return statistics.median(share for _, share in self.waits) if self.waits else 0.0


def plan(count: int, *, seed: int, longest: int, described: Stack, program: Path) -> list[PlannedJob]:
    """Jobs whose arrivals and ends are some seconds apart when the player plays them. Times of Kubernetes
    have whole seconds: a recording does not tell the order of events within one, and the decisions after them
    may be others.
    """
    dice = random.Random(seed)  # noqa: S311 - the work of a benchmark
    jobs: list[PlannedJob] = []
    tries = 0
    while len(jobs) < count:
        tries += 1
        at = jobs[-1].at + dice.randint(_APART, 2 * _APART + tries) if jobs else 0
        job = PlannedJob(
            name=f"job-{len(jobs):04}",
            team=dice.choice(_TEAMS),
            at=at,
            gpus=dice.choice((1, 2, 2, 4, 4, 8)),
            seconds=dice.randint(longest // 4, longest),
            priority=dice.choice(("prod", "dev", "dev", "dev")),
        )
        if _is_spaced([*jobs, job], described, program):
            jobs.append(job)
            tries = 0
    return jobs


def _is_spaced(jobs: Sequence[PlannedJob], described: Stack, program: Path) -> bool:
    queues = queues_of(described)
    world = World(objects=queues.objects, config=queues.config, grace=_GRACE)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    entries = [
        Entry(
            workload=stored.pending(_workload(job, described, start + timedelta(seconds=job.at))),
            seconds=job.seconds,
        )
        for job in jobs
    ]
    played = play(world, entries, program=program)
    runs = (run for found in played.runs.values() for run in found)
    ends = [run.end for run in runs if run.end is not None and not run.is_evicted]
    events = sorted([*(int(start.timestamp()) + job.at for job in jobs), *ends])
    return all(after - before >= _APART for before, after in pairwise(events))


def stack() -> Stack:
    teams = {team: {"quota": {_POOL: _QUOTA}, "borrow": {_POOL: _QUOTA * len(_TEAMS)}} for team in _TEAMS}
    described = {
        "cluster": {"provider": "existing", "name": "bench", "context": "bench"},
        "pools": {
            "cpu": {"machine": "local-cpu", "minNodes": 1, "maxNodes": 1},
            _POOL: {"accelerator": "nvidia-l4", "machine": "local-l4", "maxNodes": _QUOTA * len(_TEAMS)},
        },
        "priorities": {"prod": 1000, "dev": 100},
        "departments": {"all": {"teams": teams}},
    }
    return config.parse(described, source="bench")


@contextmanager
def kueue(described: Stack, programs: Programs, folder: Path) -> Iterator[ControlPlane]:
    """A control plane with the queues of a stack."""
    batches = [[*batch] for batch in fixtures.manifest_batches(described)]
    with envtest.control_plane(folder, programs) as plane:
        define(plane, programs)
        for batch in batches:
            for path, manifest in batch:
                plane.call("POST", path, manifest)
        with envtest.kueue(plane, programs, config=deciding_config(described)):
            assert wait_for_usage_sync(plane, expected_usage(batches, []))
            yield plane


def record(plane: ControlPlane, jobs: Sequence[PlannedJob], described: Stack, out: Path) -> Recording:
    """Let the jobs happen while `muster record` watches."""
    argv = [sys.executable, "-m", "muster", "record", "--out", str(out)]
    watching = subprocess.Popen(
        [*argv, "--kubeconfig", str(plane.kubeconfig())], stderr=subprocess.PIPE, text=True
    )
    try:
        assert watching.stderr is not None
        while "watching" not in (line := watching.stderr.readline()):
            assert line, "the recorder has ended"
        _Actors(plane, described, jobs).run()
        watching.send_signal(signal.SIGINT)
        watching.wait(timeout=60)
    finally:
        watching.kill()
    return load_recording(out)


def compare(recording: Recording, described: Stack, *, program: Path) -> Agreement:
    assumed = Assumptions(grace=release_seconds(recording))
    side = to_side(queues_of(described), recording, assumed)
    played = play(side.world, side.entries, program=program)
    return agreement(recording, played)


def release_seconds(recording: Recording) -> int:
    """How long a preempted job took to give its quota back, in the median; 0 where none was preempted."""
    found = [
        run.ended - run.evicted
        for job in recording.jobs
        for run in job.runs
        if run.end is End.PREEMPTED and run.evicted is not None and run.ended is not None
    ]
    return round(statistics.median(found)) if found else 0


def agreement(recording: Recording, played: Playback) -> Agreement:
    recorded = {
        (f"{job.team}/{job.id}", number): run.reserved
        for job in recording.jobs
        for number, run in enumerate(job.runs)
    }
    starts = {
        (label, number): run.start for label, runs in played.runs.items() for number, run in enumerate(runs)
    }
    waits = [
        (error, error / wait)
        for job in recording.jobs
        if job.runs and (wait := job.runs[0].reserved - job.created) > 0
        for start in [starts.get((f"{job.team}/{job.id}", 0))]
        for error in [float("inf") if start is None else abs(start - job.created - wait)]
    ]
    return Agreement(
        starts=len(recorded),
        preemptions=sum(len(job.runs) - 1 for job in recording.jobs if job.runs),
        order=_order(recorded, starts),
        waits=waits,
    )


def _order(recorded: Mapping[tuple[str, int], float], played: Mapping[tuple[str, int], int]) -> float:
    together = sorted({*recorded, *played})
    right = total = 0
    for one, other in combinations(together, 2):
        is_known = all(each in recorded and each in played for each in (one, other))
        if is_known and recorded[one] == recorded[other]:
            continue
        total += 1
        right += is_known and (recorded[one] - recorded[other]) * (played[one] - played[other]) >= 0
    return right / total if total else 1.0


def _workload(job: PlannedJob, described: Stack, created: datetime) -> Workload:
    values = {each.name: each.value for each in described.priorities}
    (team,) = (team for _, team in described.teams() if team.name == job.team)
    (pool,) = (each for each in described.pools if each.name == _POOL)
    pods = PodSet(
        name="main",
        count=1,
        requests={names.GPU_RESOURCE: job.gpus},
        node_selector={names.POOL_LABEL: _POOL},
        tolerations=(Toleration(pool.device_taint, "Exists", "", ""),),
    )
    return Workload(
        namespace=team.namespace,
        name=job.name,
        queue=team.local_queue,
        created=created,
        pod_sets=(pods,),
        state=State.PENDING,
        priority=values[job.priority],
        priority_class=job.priority,
    )


@dataclass(slots=True)
class _Actors:
    """What jobs do besides Kueue's part. `ends`: when a running job ends; `releases`: when an evicted one
    gives its quota back.
    """

    plane: ControlPlane
    described: Stack
    jobs: Sequence[PlannedJob]
    ends: dict[str, float] = field(default_factory=dict)
    releases: dict[str, float] = field(default_factory=dict)
    left: set[str] = field(default_factory=set)

    def run(self) -> None:
        begun, waiting = time.monotonic(), list(self.jobs)
        longest = _PATIENCE + 2 * sum(job.seconds for job in self.jobs)
        while len(self.left) < len(self.jobs):
            now = time.monotonic()
            assert now - begun < longest, f"{len(self.jobs) - len(self.left)} jobs have not ended"
            while waiting and begun + waiting[0].at <= now:
                self._submit(waiting.pop(0))
            with suppress(OSError):  # the kind is not served for a moment after Kueue has changed it
                for found in self.plane.call("GET", _WORKLOADS)["items"]:
                    self._act(found, now)
            time.sleep(_PAUSE)

    def _submit(self, job: PlannedJob) -> None:
        workload = _workload(job, self.described, datetime.now(UTC))
        body = stored.pending(workload)
        body["metadata"] = {"name": workload.name, "namespace": workload.namespace}
        path = f"/apis/{names.KUEUE_API_VERSION}/namespaces/{workload.namespace}/workloads"
        self.plane.call("POST", path, body)

    def _act(self, found: Mapping[str, Any], now: float) -> None:
        name = text(found, "metadata", "name")
        if name in self.left or not is_true(found, "Admitted"):
            return
        if is_true(found, "Evicted"):
            self.ends.pop(name, None)
            if now >= self.releases.setdefault(name, now + _GRACE):
                del self.releases[name]
                self._release(found)
            return
        seconds = next(each.seconds for each in self.jobs if each.name == name)
        if now >= self.ends.setdefault(name, now + seconds):
            self.left.add(name)
            self._patch(found, {"Finished": ("True", "Succeeded", "Done")})

    def _release(self, found: Mapping[str, Any]) -> None:
        """As every job integration does once its pods are gone."""
        message = text(find_condition(found, "Evicted"), "message")
        self._patch(
            found,
            {
                "QuotaReserved": ("False", "Pending", message),
                "Admitted": ("False", "NoReservation", message),
            },
            admission=None,
        )

    def _patch(
        self, found: Mapping[str, Any], changes: Mapping[str, tuple[str, str, str]], **status: Any
    ) -> None:
        meta, now = found["metadata"], datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        path = f"/apis/{names.KUEUE_API_VERSION}/namespaces/{meta['namespace']}/workloads/{meta['name']}"
        kept = [each for each in found["status"]["conditions"] if each["type"] not in changes]
        fresh = [
            {"type": kind, "status": value, "reason": reason, "message": message, "lastTransitionTime": now}
            for kind, (value, reason, message) in changes.items()
        ]
        body = {"status": {**status, "conditions": [*kept, *fresh]}}
        self.plane.call("PATCH", f"{path}/status", body, content_type=_MERGE)


def main() -> None:
    arguments = _arguments()
    described, programs, program = stack(), envtest.ensure(), ensure_player()
    jobs = plan(
        arguments.jobs, seed=arguments.seed, longest=arguments.longest, described=described, program=program
    )
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="muster-recorded-") as folder:
        out = arguments.out or Path(folder) / "recording.jsonl.gz"
        with kueue(described, programs, Path(folder)) as plane:
            recording = record(plane, jobs, described, out)
    found = compare(recording, described, program=program)
    seconds, shares = zip(*found.waits, strict=True)
    print("| jobs | starts | preemptions | seconds | in order | median error of waits | p95 | longest |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|")
    row = (
        len(recording.jobs),
        found.starts,
        found.preemptions,
        f"{time.monotonic() - begun:.0f}",
        f"{found.order:.2%}",
        f"{found.median_error:.1%}",
        f"{sorted(shares)[int(0.95 * len(shares))]:.1%}",
        f"{max(seconds):.0f} s",
    )
    print("|", " | ".join(map(str, row)), "|")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.recorded",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--jobs", type=int, default=40)
    parser.add_argument("--longest", type=int, default=40, help="seconds that the longest job runs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="keep the recording in this file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
