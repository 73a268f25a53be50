"""Measures the memory of the forecaster in a recorder's pod on a busy cluster.

    python -m bench.forecaster --running 1000 --waiting 4000

A bare control plane holds the queues of forty teams and so many Workloads, some of which hold quota. The
recording beside them has two parts of the recorder's size. The program runs one round, as in the pod: it
lists, learns, plays, and writes on every Workload that waits. Its resident memory and its player's are read
fifty times a second from /proc. No Kueue is there, because the forecaster never asks it.

    python -m bench.forecaster --offline --runs 1

is one round of as many Workloads without the control plane, in this process: the processor time of its parts,
and the most memory of the program.
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import yaml

from bench.gangs.usage import resident
from muster.live.snapshot import Snapshot, kueue
from muster.model import names
from muster.model.stack import Scheduler
from muster.render.recorder import ROTATE_MIB
from muster.replay.forecast import Settings, forecast_all
from muster.replay.forecaster import PLAYER_MEMORY
from muster.replay.moment import at_moment, moment_of
from muster.replay.player import Playback, ensure_player
from muster.replay.recording import End, Header, Job, PodSet, Recording, Run
from muster.replay.recording_file import load_recording, next_part, write_recording
from muster.replay.side import KueueDecider, Side, Subject, of_cluster
from tests import envtest
from tests.envtest import ControlPlane
from tests.envtest.kueue import define
from tests.processes import children

_PROGRAMS: Final = ("etcd", "kube-apiserver")
_ASSETS: Final = ("kueue-crds", "provisioningrequest-crd")
_API: Final = f"/apis/{names.KUEUE_API_VERSION}"
_TEAMS: Final = 40
_JOBS: Final = 60_000
"""In a part of the recording."""
_GPUS: Final = (1, 1, 2, 4, 8)
_HOUR: Final = 3600.0
_MIB: Final = 2**20
_EVERY: Final = 0.02
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Peak:
    """In bytes, of the program, of its player, and of both together. `seconds` is the whole round."""

    program: int
    player: int
    together: int
    seconds: float


def main() -> None:
    arguments = _arguments()
    if arguments.offline:
        _offline(running=arguments.running, waiting=arguments.waiting, runs=arguments.runs)
        return
    found = envtest.found(_PROGRAMS, _ASSETS)
    if found is None:
        sys.exit(f"not there: {', '.join(envtest.missing(_PROGRAMS, _ASSETS))}. Fix: muster local build.")
    with tempfile.TemporaryDirectory(prefix="muster-forecaster-") as folder:
        recording, sizes = _write_recording(Path(folder))
        with envtest.control_plane(Path(folder), found) as plane:
            define(plane, found)
            _fill(plane, running=arguments.running, waiting=arguments.waiting)
            peak = _measure(plane, recording, runs=arguments.runs)
    print(f"parts of {', '.join(f'{size / _MIB:.1f}' for size in sizes)} MiB (the recorder's: {ROTATE_MIB})")
    print(
        f"{arguments.running} Workloads run, {arguments.waiting} wait, {arguments.runs} futures: "
        f"program {peak.program / _MIB:.0f} MiB, player {peak.player / _MIB:.0f} MiB, "
        f"together {peak.together / _MIB:.0f} MiB, {peak.seconds:.0f} s"
    )


def _offline(*, running: int, waiting: int, runs: int) -> None:
    program = ensure_player()
    queues = [body for _, body in _queues()]
    now = datetime.now(UTC).replace(microsecond=0)
    workloads = [
        workload
        for number in range(running + waiting)
        if (workload := kueue.to_workload(_stored(number, running, now))) is not None
    ]
    snapshot = Snapshot(taken=now, scheduler=Scheduler.KUEUE, queues=(), workloads=tuple(workloads))
    moment = moment_of(snapshot)

    def player(side: Subject) -> Playback:
        assert isinstance(side, Side)
        _print_cost("drawn")
        found = replace(side, world=replace(side.world, memory=PLAYER_MEMORY)).play(program)
        _print_cost(f"played until {(found.end - moment.at) / _HOUR:.1f} h, {found.admissions} starts")
        return found

    with tempfile.TemporaryDirectory(prefix="muster-forecaster-") as folder:
        path, _ = _write_recording(Path(folder))
        _print_cost("prepared")
        recording = load_recording(path, most_older=1)
    _print_cost("read")
    forecast_all(
        KueueDecider(of_cluster(queues, {})),
        recording.header,
        moment,
        history=at_moment(recording, min(recording.header.end, moment.at)),
        player=player,
        settings=Settings(runs=runs, seconds=3 * 24 * int(_HOUR), at_once=1),
    )
    _print_cost("counted")


def _print_cost(done: str) -> None:
    """So far, of this process and of the players that have ended."""
    own, players = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(
        f"{done}: program {own.ru_utime + own.ru_stime:.1f} s of CPU, {own.ru_maxrss / 1024:.0f} MiB; "
        f"players {players.ru_utime + players.ru_stime:.1f} s of CPU"
    )


def _write_recording(folder: Path) -> tuple[Path, list[int]]:
    """Its file, and the sizes of its two parts."""
    path = folder / "recording.jsonl.gz"
    return path, [_write_part(next_part(path), 0), _write_part(path, _JOBS)]


def _write_part(path: Path, first: int) -> int:
    """Two weeks of jobs that have ended; the size of the file."""
    dice = random.Random(first)  # noqa: S311 - a simulation
    start = time.time() - 28 * 24 * _HOUR + (14 * 24 * _HOUR if first else 0)
    jobs = tuple(_ended(number, start, dice) for number in range(first, first + _JOBS))
    header = Header(scheduler=Scheduler.KUEUE, start=start, end=start + 14 * 24 * _HOUR, source="bench")
    # A writer refuses a name of which there are older parts.
    written = path.with_name(f"written-{first}.jsonl.gz")
    write_recording(written, Recording(header=header, jobs=jobs))
    return written.rename(path).stat().st_size


def _ended(number: int, start: float, dice: random.Random) -> Job:
    created = start + number % _JOBS * 14 * 24 * _HOUR / _JOBS
    reserved = created + dice.expovariate(1 / 600)
    admitted = reserved + dice.uniform(60, 600)
    ended = admitted + dice.lognormvariate(7.5, 1.0)
    run = Run(reserved=reserved, admitted=admitted, ended=ended, end=End.FINISHED, flavors=("h100",))
    return Job(
        id=f"{number:016x}",
        team=_team(number),
        queue="default",
        created=created,
        pod_sets=(PodSet(name="main", count=1, requests={names.GPU_RESOURCE: dice.choice(_GPUS)}),),
        runs=(run,),
        left=ended,
        outcome=End.FINISHED,
    )


def _fill(plane: ControlPlane, *, running: int, waiting: int) -> None:
    for path, body in _queues():
        plane.call("POST", path, body)
    with ThreadPoolExecutor(8) as pool:
        for each in [pool.submit(_create, plane, number, running) for number in range(running + waiting)]:
            each.result()


def _queues() -> Iterator[tuple[str, Object]]:
    flavor = {"nodeLabels": {names.POOL_LABEL: "h100"}}
    yield f"{_API}/resourceflavors", _kueue("ResourceFlavor", "h100", flavor)
    quota = {"name": "h100", "resources": [{"name": names.GPU_RESOURCE, "nominalQuota": "80"}]}
    groups = [{"coveredResources": [names.GPU_RESOURCE], "flavors": [quota]}]
    for number in range(_TEAMS):
        team = _team(number)
        yield "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team}}
        spec = {"cohortName": "all", "namespaceSelector": {}, "resourceGroups": groups}
        yield f"{_API}/clusterqueues", _kueue("ClusterQueue", team, spec)
        queue = _kueue("LocalQueue", "default", {"clusterQueue": team})
        queue["metadata"] |= {"namespace": team, "labels": {names.TEAM_LABEL: team}}
        yield f"{_API}/namespaces/{team}/localqueues", queue


def _create(plane: ControlPlane, number: int, running: int) -> None:
    wanted = _stored(number, running, datetime.now(UTC))
    status = wanted.pop("status", None)
    path = f"{_API}/namespaces/{_team(number)}/workloads"
    made = plane.call("POST", path, wanted)
    if status is not None:
        plane.call("PUT", f"{path}/job-{number}/status", {**made, "status": status})


def _stored(number: int, running: int, now: datetime) -> Object:
    """A Workload as the API server has it; the first `running` of them hold quota."""
    team, gpus = _team(number), str(_GPUS[number % len(_GPUS)])
    container = {"name": "main", "image": "none", "resources": {"requests": {names.GPU_RESOURCE: gpus}}}
    pods = {"containers": [container], "restartPolicy": "Never"}
    pod_sets = [{"name": "main", "count": 1, "template": {"spec": pods}}]
    spec = {"queueName": "default", "priority": number % 3 * 100, "podSets": pod_sets}
    found = _kueue("Workload", f"job-{number}", spec)
    found["metadata"] |= {"namespace": team, "creationTimestamp": now.strftime(_TIME)}
    return found if number >= running else {**found, "status": _admitted(team, gpus, now)}


def _admitted(team: str, gpus: str, now: datetime) -> Object:
    flavors, usage = {names.GPU_RESOURCE: "h100"}, {names.GPU_RESOURCE: gpus}
    assigned = {"name": "main", "count": 1, "flavors": flavors, "resourceUsage": usage}
    since = now.strftime(_TIME)
    return {
        "admission": {"clusterQueue": team, "podSetAssignments": [assigned]},
        "conditions": [
            {"type": kind, "status": "True", "reason": "Bench", "message": "", "lastTransitionTime": since}
            for kind in ("QuotaReserved", "Admitted")
        ],
    }


def _measure(plane: ControlPlane, recording: Path, *, runs: int) -> Peak:
    kubeconfig = plane.kubeconfig()
    written = kubeconfig.with_suffix(".json")
    written.write_text(json.dumps(yaml.safe_load(kubeconfig.read_text())))
    command = [sys.executable, "-m", "muster.replay", "forecast", f"--out={recording}", "--configuration={}"]
    command += [f"--player={ensure_player()}", f"--kubeconfig={written}", f"--runs={runs}", "--days=3"]
    command += ["--once"]
    began = time.monotonic()
    program = player = together = 0
    with subprocess.Popen(command) as process:
        while process.poll() is None:
            own = _resident(process.pid)
            players = 0
            with suppress(OSError):
                players = sum(map(_resident, children(process.pid)))
            program, player = max(program, own), max(player, players)
            together = max(together, own + players)
            time.sleep(_EVERY)
    if process.returncode:
        sys.exit(f"the forecaster ended with code {process.returncode}.")
    return Peak(program, player, together, time.monotonic() - began)


def _resident(pid: int) -> int:
    """0 once the process has ended."""
    with suppress(OSError):
        return resident(pid)
    return 0


def _kueue(kind: str, name: str, spec: Object) -> Object:
    return {"apiVersion": names.KUEUE_API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _team(number: int) -> str:
    return f"team-{number % _TEAMS}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.forecaster", description=__doc__)
    parser.add_argument("--running", type=int, default=1000)
    parser.add_argument("--waiting", type=int, default=4000)
    parser.add_argument("--offline", action="store_true", help="without a control plane, part by part")
    parser.add_argument("--runs", type=int, default=20, help="futures; the pod plays 20")
    return parser.parse_args()


if __name__ == "__main__":
    main()
