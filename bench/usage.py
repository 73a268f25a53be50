"""Measures how long `muster usage` needs for a month, as a whole process.

    python -m bench.usage [--jobs 10000] [--runs 5]

Jobs and nodes are drawn over 30 days: jobs of some hours on 1 to 16 GPUs, nodes that boot, break and go.
Writes the recording once. Each run reads and books it, and writes the page and the CSV.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

from muster.config import load
from muster.model.pools import Pool
from muster.model.queues import Team
from muster.model.stack import Scheduler, Stack
from muster.replay.recording import End, Gap, Header, Job, Node, PodSet, Recording, Run, Usable
from muster.replay.recording_file import write_recording

_STACK = Path("stacks/Pulumi.gke-prod.yaml")
_DAY = 86_400.0
# 2026-11-01T00:00:00Z
_START = 1_793_491_200.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.usage", description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=300)
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "month.jsonl.gz"
        write_recording(path, draw(load(_STACK), jobs=arguments.jobs, nodes=arguments.nodes))
        runs = [*_runs(path, arguments.runs)]
    print(f"{arguments.jobs:,} jobs, {arguments.nodes} nodes, 30 days, load {os.getloadavg()[0]:.0f}")
    for what, seconds in zip(("s", "s of CPU"), zip(*runs, strict=True), strict=True):
        print(f"{statistics.median(seconds):.1f} {what} ({min(seconds):.1f} to {max(seconds):.1f})")


def _runs(recording: Path, count: int) -> Iterator[tuple[float, float]]:
    """Seconds by the wall's clock, and of CPU."""
    folder = recording.parent
    outputs = ("--html", str(folder / "usage.html"), "--csv", str(folder / "usage.csv"))
    command = [sys.executable, "-m", "muster", "usage", "gke-prod", "--recording", str(recording), *outputs]
    for _ in range(count):
        began, before = time.monotonic(), os.times()
        subprocess.run(command, check=True, capture_output=True)
        took, after = time.monotonic() - began, os.times()
        spent = after.children_user + after.children_system - before.children_user - before.children_system
        yield took, spent


def draw(stack: Stack, *, jobs: int, nodes: int) -> Recording:
    """A month of a stack."""
    random = Random(1)  # noqa: S311 - the work of a benchmark
    pools, teams = [pool for pool in stack.pools if pool.is_gpu], [team for _, team in stack.teams()]
    return Recording(
        header=Header(
            scheduler=Scheduler.KUEUE,
            start=_START,
            end=_START + 30 * _DAY,
            source="cluster",
            nodes_from=_START,
        ),
        jobs=tuple(
            _job(number, random, random.choice(pools), random.choice(teams)) for number in range(jobs)
        ),
        nodes=tuple(_node(number, random, random.choice(pools)) for number in range(nodes)),
        gaps=(Gap(_START + 3 * _DAY, _START + 3 * _DAY + 3600),),
    )


def _job(number: int, random: Random, pool: Pool, team: Team) -> Job:
    created = _START + random.random() * 30 * _DAY
    reserved = created + random.expovariate(1 / 600)
    admitted = reserved + random.choice((0, 300))
    ended = admitted + random.expovariate(1 / 14_400)
    is_lost = random.random() < 0.1
    gpus = random.choice((1, pool.slots_per_node))
    run = Run(
        reserved=reserved,
        admitted=admitted,
        evicted=ended if is_lost else None,
        ended=ended,
        end=End.PREEMPTED if is_lost else End.FINISHED,
        flavors=(pool.flavor,),
    )
    pods = PodSet(name="p0", count=random.choice((1, 2)), requests={pool.device: gpus}, pools=(pool.name,))
    return Job(
        id=f"{number:016x}",
        team=team.namespace,
        cluster_queue=team.name,
        created=created,
        pod_sets=(pods,),
        runs=(run,),
        left=ended,
        outcome=End.FINISHED,
    )


def _node(number: int, random: Random, pool: Pool) -> Node:
    created, gpus = _START + random.random() * 25 * _DAY, pool.slots_per_node
    states = (
        Usable(created + 200, gpus),
        Usable(created + _DAY, gpus - 1),
        Usable(created + 1.1 * _DAY, gpus),
    )
    left = created + random.random() * 20 * _DAY
    return Node(
        id=f"node-{number}",
        pool=pool.name,
        machine=pool.machine.name,
        created=created,
        gpus=gpus,
        usable=states,
        left=left,
    )


if __name__ == "__main__":
    main()
