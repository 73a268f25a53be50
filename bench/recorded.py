"""Measures how well a recording of a real Kueue replays: its order of starts, and its waits.

    python -m bench.recorded --jobs 120 --longest 600 --gap 6 > table.md

A bare control plane runs etcd, the API server and Kueue. Jobs of three teams with borrowing and two
priorities arrive as they come, faster than they end; this program acts as the jobs, which end after their
time and give their quota back when they are preempted (job_actors.py). `muster record` watches. Then the
player plays the recording in the same queues.

Start order: of all pairs of recorded starts that are a tenth of a second apart or more, the share that the
player starts in this order or at the same time. A start that only one side has makes all of its pairs wrong:
the second start of a preempted job is another one than its first. Error of a wait: the difference of both
waits as a share of the recorded one, of jobs that waited for a second or longer.

    python -m bench.recorded --recording month.jsonl.gz --shift 0.01

plays the recording five times more with all of its times shifted by up to 10 ms, each by its own draw, and
compares these plays with the first: how much of the order such small differences change.
"""

import argparse
import math
import random
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import combinations
from pathlib import Path
from typing import Final

from bench.job_actors import PlannedJob, act
from muster import config
from muster.live.snapshot import PodSet, State, Toleration, Workload
from muster.model import names
from muster.model.stack import Stack
from muster.preview.replay.both import queues_of
from muster.preview.whatif.kueue import queue_objects
from muster.render.kueue import deciding_config
from muster.replay.assumptions import Assumptions
from muster.replay.player import Playback, ensure_player, play
from muster.replay.recording import Recording, Run
from muster.replay.recording_file import load_recording
from muster.replay.side import to_side
from tests import envtest
from tests.envtest import ControlPlane, Programs
from tests.envtest.kueue import define
from tests.integration.whatif.simulate import expected_usage, path_of, wait_for_usage_sync

PROGRAMS: Final = ("etcd", "kube-apiserver", "kueue")
ASSETS: Final = ("kueue-crds", "provisioningrequest-crd")
_TEAMS: Final = ("vision", "speech", "robotics")
_POOL: Final = "l4"
_SIZES: Final = (1, 1, 2, 2, 4, 4, 8)
# Kueue writes what it admits in one cycle at the same time.
_TOGETHER: Final = 0.1
# Of a job that starts at once, the wait is only what Kueue takes.
_SHORTEST: Final = 1.0
_URGENT: Final = 0.1
# Seconds from a preemption until the quota is free.
_GRACE: Final = (0.5, 3.0)
_SHIFTED_PLAYS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """`order` is the share of pairs of starts in the same order, `firsts` that of pairs of first starts,
    `waits` the errors of the waits, in seconds and as shares of the recorded wait.
    """

    starts: int
    preemptions: int
    order: float
    firsts: float
    waits: Sequence[tuple[float, float]]

    @property
    def median_error(self) -> float:
        return statistics.median(share for _, share in self.waits) if self.waits else 0.0


@dataclass(frozen=True, slots=True)
class Order:
    """The shares of pairs of all starts and of first starts in the same order."""

    starts: float
    firsts: float


def plan(count: int, *, seed: int, longest: float, gap: float) -> list[PlannedJob]:
    """Jobs that come as they come, a `gap` of seconds apart in the mean, and run for a quarter of the longest
    time in the median.
    """
    dice = random.Random(seed)  # noqa: S311 - the work of a benchmark
    jobs: list[PlannedJob] = []
    at = 0.0
    for number in range(count):
        job = PlannedJob(
            name=f"job-{number:04}",
            team=dice.choice(_TEAMS),
            at=at,
            gpus=dice.choice(_SIZES),
            seconds=min(longest, dice.lognormvariate(math.log(longest / 4), 0.8)),
            priority="prod" if dice.random() < _URGENT else "dev",
            grace=dice.uniform(*_GRACE),
        )
        jobs.append(job)
        at += dice.expovariate(1 / gap)
    return jobs


def stack(quota: int) -> Stack:
    """Three teams with this many GPUs each, who may borrow all."""
    teams = {team: {"quota": {_POOL: quota}, "borrow": {_POOL: quota * len(_TEAMS)}} for team in _TEAMS}
    described = {
        "cluster": {"provider": "existing", "name": "bench", "context": "bench"},
        "pools": {
            "cpu": {"machine": "local-cpu", "minNodes": 1, "maxNodes": 1},
            _POOL: {"accelerator": "nvidia-l4", "machine": "local-l4", "maxNodes": quota * len(_TEAMS)},
        },
        "priorities": {"prod": 1000, "dev": 100},
        "departments": {"all": {"teams": teams}},
    }
    return config.parse(described, source="bench")


@contextmanager
def kueue(described: Stack, programs: Programs, folder: Path) -> Iterator[ControlPlane]:
    """A control plane with the queues of a stack."""
    objects = queue_objects(described)
    with envtest.control_plane(folder, programs) as plane:
        define(plane, programs)
        for each in objects:
            plane.call("POST", path_of(each), each)
        with envtest.kueue(plane, programs, config=deciding_config(described)):
            assert wait_for_usage_sync(plane, expected_usage(objects, []))
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
        act(plane, jobs, lambda job, created: _workload(job, described, created))
        watching.send_signal(signal.SIGINT)
        watching.wait(timeout=60)
    finally:
        watching.kill()
    return load_recording(out)


def compare(recording: Recording, described: Stack, *, program: Path) -> Agreement:
    return agreement(recording, _play(recording, described, program))


def shifted_orders(recording: Recording, described: Stack, *, program: Path, by: float) -> list[Order]:
    """How much of the player's own order is left when times differ by up to `by` seconds."""
    whole = _starts(_play(recording, described, program))
    found: list[Order] = []
    for seed in range(_SHIFTED_PLAYS):
        moved = _starts(_play(_shifted(recording, by, seed), described, program))
        found.append(Order(starts=_order(whole, moved), firsts=_order(_firsts(whole), _firsts(moved))))
    return found


def _shifted(recording: Recording, by: float, seed: int) -> Recording:
    dice = random.Random(seed)  # noqa: S311 - the noise of a benchmark

    def shift(at: float | None) -> float | None:
        return None if at is None else at + dice.uniform(-by, by)

    def shift_run(run: Run) -> Run:
        reserved = run.reserved + dice.uniform(-by, by)
        admitted, evicted, ended = map(shift, (run.admitted, run.evicted, run.ended))
        return replace(run, reserved=reserved, admitted=admitted, evicted=evicted, ended=ended)

    jobs = (
        replace(
            job,
            arrived=shift(job.arrived),
            left=shift(job.left),
            runs=tuple(shift_run(run) for run in job.runs),
        )
        for job in recording.jobs
    )
    return replace(recording, jobs=tuple(jobs))


def _play(recording: Recording, described: Stack, program: Path) -> Playback:
    side = to_side(queues_of(described), recording, Assumptions(grace=None))
    return play(side.world, side.entries, program=program)


def _starts(played: Playback) -> dict[tuple[str, int], float]:
    return {
        (label, number): run.start for label, runs in played.runs.items() for number, run in enumerate(runs)
    }


def agreement(recording: Recording, played: Playback) -> Agreement:
    recorded = {
        (f"{job.team}/{job.id}", number): run.reserved
        for job in recording.jobs
        for number, run in enumerate(job.runs)
    }
    starts = _starts(played)
    waits = [
        (error, error / wait)
        for job in recording.jobs
        if job.runs and (wait := job.runs[0].reserved - job.arrival) >= _SHORTEST
        for start in [starts.get((f"{job.team}/{job.id}", 0))]
        for error in [float("inf") if start is None else abs(start - job.arrival - wait)]
    ]
    return Agreement(
        starts=len(recorded),
        preemptions=sum(len(job.runs) - 1 for job in recording.jobs if job.runs),
        order=_order(recorded, starts),
        firsts=_order(_firsts(recorded), _firsts(starts)),
        waits=waits,
    )


def _firsts(starts: Mapping[tuple[str, int], float]) -> dict[tuple[str, int], float]:
    return {which: at for which, at in starts.items() if which[1] == 0}


def _order(recorded: Mapping[tuple[str, int], float], played: Mapping[tuple[str, int], float]) -> float:
    together = sorted({*recorded, *played})
    right = total = 0
    for one, other in combinations(together, 2):
        is_known = all(each in recorded and each in played for each in (one, other))
        if is_known and abs(recorded[one] - recorded[other]) < _TOGETHER:
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
        tolerations=(Toleration(pool.device, "Exists", "", ""),),
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


def main() -> None:
    arguments = _arguments()
    described = stack(arguments.quota)
    recording = load_recording(arguments.recording) if arguments.recording else _happen(arguments, described)
    program = ensure_player()
    found = compare(recording, described, program=program)
    seconds, shares = zip(*found.waits or [(0.0, 0.0)], strict=True)
    print(
        "| jobs | waited | starts | preemptions | seconds | starts in order | first starts in order "
        "| median error of waits | p95 | longest |"
    )
    print("|" + "---:|" * 10)
    row = (
        len(recording.jobs),
        len(found.waits),
        found.starts,
        found.preemptions,
        f"{recording.header.end - recording.header.start:.0f}",
        f"{found.order:.2%}",
        f"{found.firsts:.2%}",
        f"{found.median_error:.1%}",
        f"{sorted(shares)[int(0.95 * len(shares))]:.1%}",
        f"{max(seconds):.0f} s",
    )
    print("|", " | ".join(map(str, row)), "|")
    if arguments.shift:
        _print_shifted(shifted_orders(recording, described, program=program, by=arguments.shift))


def _print_shifted(found: Sequence[Order]) -> None:
    print("\nwith shifted times, of the order of the first play:")
    for name, shares in (
        ("starts", [each.starts for each in found]),
        ("first starts", [each.firsts for each in found]),
    ):
        print(f"{name}: {min(shares):.1%} to {max(shares):.1%}, median {statistics.median(shares):.1%}")


def _happen(arguments: argparse.Namespace, described: Stack) -> Recording:
    jobs = plan(arguments.jobs, seed=arguments.seed, longest=arguments.longest, gap=arguments.gap)
    with tempfile.TemporaryDirectory(prefix="muster-recorded-") as folder:
        out = arguments.out or Path(folder) / "recording.jsonl.gz"
        with kueue(described, envtest.ensure(), Path(folder)) as plane:
            return record(plane, jobs, described, out)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.recorded",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--jobs", type=int, default=150)
    parser.add_argument("--longest", type=float, default=120, help="seconds that the longest job runs")
    parser.add_argument("--gap", type=float, default=1.2, help="seconds between arrivals, in the mean")
    parser.add_argument("--quota", type=int, default=16, help="GPUs of each of the three teams")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="keep the recording in this file")
    parser.add_argument("--shift", type=float, metavar="SECONDS", help="also play it with shifted times")
    parser.add_argument("--recording", type=Path, help="play this recording of before")
    return parser.parse_args()


if __name__ == "__main__":
    main()
