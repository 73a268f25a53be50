"""Measures what a replay with KAI costs, and how much two plays of the same jobs differ.

    python -m bench.kai_replay --jobs 1000 --nodes 16

The jobs are the first of the trace (bench/traces), whose teams become four. Their arrivals are spread so that
the mean demand is `--load` of the nodes' GPUs. Each team has a quarter of them and may use all.
"""

import argparse
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from bench.replay import GPUS_A_NODE, TRACE, cluster, read_trace
from muster import config
from muster.model.stack import Stack
from muster.preview.replay.both import to_kai_side
from muster.replay.kai_player import ensure_kai_player
from muster.replay.player import Playback
from muster.replay.recording import Job, Recording

_TEAMS: Final = 4
_MIB: Final = 1024


@dataclass(frozen=True, slots=True)
class Timing:
    """`memory` is that of the largest player so far, in MiB."""

    playback: Playback
    wall: float
    cpu: float
    memory: float

    def __str__(self) -> str:
        played = self.playback
        return (
            f"{self.wall:.0f} s, {self.cpu:.1f} s of CPU, {1000 * self.cpu / played.cycles:.1f} ms a cycle, "
            f"{self.memory:.0f} MiB: {played.cycles} cycles, {played.admissions} starts, "
            f"{played.preemptions} evictions, digest {played.digest[:8]}"
        )


def main() -> None:
    arguments = _arguments()
    recording = offered(
        read_trace(arguments.trace, most=arguments.jobs),
        gpus=arguments.nodes * GPUS_A_NODE,
        load=arguments.load,
    )
    side, program = to_kai_side(stack(arguments.nodes), recording), ensure_kai_player()
    timings = []
    for _ in range(2):
        timings.append(_measure(lambda: side.play(program)))
        print(timings[-1], flush=True)
    first, second = (_starts(each.playback) for each in timings)
    print(f"{len(first & second)} starts are in both plays, of {len(first)} and {len(second)}")


def offered(recording: Recording, *, gpus: int, load: float) -> Recording:
    """The jobs with arrivals that ask for so many GPUs in the mean, and four teams."""
    work = sum(job.devices * (job.runs[0].seconds or 0.0) for job in recording.jobs)
    first, last = recording.jobs[0].created, recording.jobs[-1].created
    scale = work / (gpus * load) / (last - first)
    teams = {
        team: f"team-{index % _TEAMS}" for index, team in enumerate(sorted({j.team for j in recording.jobs}))
    }
    jobs = tuple(
        _moved(job, int(first + (job.created - first) * scale), teams[job.team]) for job in recording.jobs
    )
    return replace(recording, header=replace(recording.header, end=jobs[-1].created), jobs=jobs)


def _moved(job: Job, created: int, team: str) -> Job:
    (run,) = job.runs
    ended = created + (run.seconds or 0.0)
    return replace(
        job,
        team=team,
        created=created,
        runs=(replace(run, reserved=created, admitted=created, ended=ended),),
        left=ended,
    )


def stack(nodes: int) -> Stack:
    gpus = nodes * GPUS_A_NODE
    quota = gpus // _TEAMS
    described = {
        **cluster(nodes),
        "scheduler": "kai",
        "gangAdmission": {"kai": {"overQuota": "allow"}},
        "priorities": {"prod": 90, "dev": 50},
        "departments": {
            "all": {
                "teams": {
                    f"team-{index}": {"quota": {"gpu": quota}, "borrow": {"gpu": gpus - quota}}
                    for index in range(_TEAMS)
                }
            }
        },
    }
    return config.parse(described, source="bench")


def _starts(played: Playback) -> set[tuple[str, int, float]]:
    return {(job, index, run.start) for job, runs in played.runs.items() for index, run in enumerate(runs)}


def _measure(play: Callable[[], Playback]) -> Timing:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    played = play()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Timing(played, time.monotonic() - began, cpu, after.ru_maxrss / _MIB)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.kai_replay",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--trace", type=Path, default=TRACE, help="submit_s, team, gpus, duration_s")
    parser.add_argument("--jobs", type=int, default=1000, help="so many of the trace")
    parser.add_argument("--nodes", type=int, default=16, help="of 8 GPUs each")
    parser.add_argument("--load", type=float, default=0.9, help="mean demand, as a share of all GPUs")
    return parser.parse_args()


if __name__ == "__main__":
    main()
