"""Measures how long a replay of a month takes, base and head.

    python -m bench.replay > table.md

The trace has 9,713 jobs of 12 teams in 30 days (bench/traces). A quarter of them get priority `prod`, by a
fixed seed. Each team has the same quota and may borrow all that the others leave; head takes 64 GPUs of
each of the three least busy teams and gives them to the busiest. With a quota of 96 GPUs the mean demand is
87 % of all; with 80 it is above.
"""

import argparse
import csv
import gzip
import random
import resource
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from muster import config
from muster.model import names
from muster.model.stack import Scheduler, Stack
from muster.preview.banner import plain
from muster.preview.compare.replay import ReplayDiff
from muster.preview.replay.both import replay
from muster.replay.player import ensure_player
from muster.replay.recording import End, Header, Job, PodSet, Recording, Run

TRACE: Final = Path(__file__).parent / "traces" / "philly-gavel-30d.csv.gz"
_START: Final = 1_767_225_600.0
_DAYS: Final = 30
GPUS_A_NODE: Final = 8
_MOVED: Final = 64
_GIVING: Final = 3
_MIB: Final = 1024
_HEAD: Final = (
    "GPUs a team",
    "jobs",
    "wall s",
    "CPU s",
    "MiB",
    "base preempted",
    "head preempted",
    "digests",
)


@dataclass(frozen=True, slots=True)
class Timing:
    """`memory` is an upper bound in MiB: this process, and twice the larger of both players."""

    wall: float
    cpu: float
    memory: float
    diff: ReplayDiff


def main() -> None:
    arguments = _arguments()
    recording, program = read_trace(arguments.trace, most=arguments.jobs), ensure_player()
    print("|", " | ".join(_HEAD), "|")
    print("|", " | ".join("---:" for _ in _HEAD), "|")
    for quota in arguments.quota:
        timing = measure(recording, quota=quota, program=program)
        diff = timing.diff
        row = (
            quota,
            diff.played,
            f"{timing.wall:.0f}",
            f"{timing.cpu:.0f}",
            f"{timing.memory:.0f}",
            diff.base.preempted,
            diff.head.preempted,
            f"{diff.base.digest[:8]} {diff.head.digest[:8]}",
        )
        print("|", " | ".join(map(str, row)), "|", flush=True)
        print(f"<!-- {plain(diff.sentence)} -->", flush=True)


def measure(recording: Recording, *, quota: int, program: Path) -> Timing:
    teams = by_demand(recording)
    used, began = _cpu(), time.monotonic()
    compare = replay(recording, programs=lambda _: program)
    diff = compare(stack(teams, quota=quota, moved=0), stack(teams, quota=quota, moved=_MOVED))
    own, children = (resource.getrusage(who).ru_maxrss / _MIB for who in _WHO)
    return Timing(time.monotonic() - began, _cpu() - used, own + 2 * children, diff)


def by_demand(recording: Recording) -> list[str]:
    """The teams, the busiest first."""
    demand = Counter[str]()
    for job in recording.jobs:
        demand[job.team] += round(job.devices * (job.runs[0].seconds or 0))
    return [team for team, _ in demand.most_common()]


def stack(teams: list[str], *, quota: int, moved: int) -> Stack:
    """`teams` are sorted by demand. Each of the last ones gives `moved` GPUs to the first."""
    return config.parse(
        describe(teams, quota=quota, moved=moved, borrowed=quota * len(teams)), source="bench"
    )


def cluster(nodes: int) -> dict[str, object]:
    """The keys of a stack file for a cluster of `nodes` with GPUs."""
    return {
        "cluster": {"provider": "existing", "name": "bench", "context": "bench"},
        "pools": {
            "cpu": {"machine": "local-cpu", "minNodes": 1, "maxNodes": 1},
            "gpu": {
                "accelerator": "nvidia-l4",
                "machine": "g2-standard-96",
                "gpusPerNode": GPUS_A_NODE,
                "maxNodes": nodes,
            },
        },
    }


def describe(teams: list[str], *, quota: int, moved: int = 0, borrowed: int) -> dict[str, object]:
    """The keys of a stack file. Each team may borrow `borrowed` GPUs."""
    quotas = dict.fromkeys(teams, quota)
    for giving in teams[-_GIVING:]:
        quotas[giving] -= moved
        quotas[teams[0]] += moved
    nodes = -(-quota * len(teams) // GPUS_A_NODE)
    return {
        **cluster(nodes),
        "priorities": {"prod": 1000, "dev": 100},
        "departments": {
            "all": {
                "teams": {
                    team: {"quota": {"gpu": own}, "borrow": {"gpu": borrowed}} for team, own in quotas.items()
                }
            }
        },
    }


def read_trace(path: Path, *, most: int | None = None) -> Recording:
    """The trace as a recording in which each job ran at once."""
    jobs = tuple(_jobs(path))[:most]
    header = Header(scheduler=Scheduler.KUEUE, start=_START, end=_START + _DAYS * 86_400, source="trace")
    return Recording(header=header, jobs=jobs)


def _jobs(path: Path) -> Iterator[Job]:
    dice = random.Random(0)  # noqa: S311 - priorities of a benchmark
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for number, row in enumerate(csv.DictReader(lines)):
            gpus, created = int(row["gpus"]), _START + int(row["submit_s"])
            each = GPUS_A_NODE if gpus % GPUS_A_NODE == 0 else gpus if gpus < GPUS_A_NODE else 1
            ended = created + int(row["duration_s"])
            run = Run(reserved=created, admitted=created, ended=ended, end=End.FINISHED)
            yield Job(
                id=f"job-{number:05}",
                team=f"t-{row['team']}",
                created=created,
                pod_sets=(
                    PodSet(
                        name="main", count=gpus // each, requests={names.GPU_RESOURCE: each}, pools=("gpu",)
                    ),
                ),
                priority_class=dice.choice(("prod", "dev", "dev", "dev")),
                runs=(run,),
                left=ended,
                outcome=End.FINISHED,
            )


_WHO: Final = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)


def _cpu() -> float:
    """CPU time of this process and of its finished child processes."""
    return sum(found.ru_utime + found.ru_stime for found in map(resource.getrusage, _WHO))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.replay",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--trace", type=Path, default=TRACE, help="submit_s, team, gpus, duration_s")
    parser.add_argument("--quota", type=int, nargs="+", default=[96, 80], help="GPUs of each team")
    parser.add_argument("--jobs", type=int, help="only the first of the trace")
    return parser.parse_args()


if __name__ == "__main__":
    main()
