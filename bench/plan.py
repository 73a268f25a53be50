"""Measures how many replays and how long `muster plan` needs on a public trace.

    python -m bench.plan > answer.txt

The first jobs of the trace of bench/replay.py, its 12 teams with the same quota each, and what each may
borrow. The goal is of the busiest team by default. The answer is printed as `muster plan` prints it.
"""

import argparse
import os
import resource
import sys
import time
from pathlib import Path

import yaml

from bench.replay import by_demand, describe, read_trace
from muster.cli.output import format_report
from muster.config.document import NAMESPACE, parse_text
from muster.config.stack import examine
from muster.preview.proposal.evaluate import Budget, Sample, Subject, parse_goal
from muster.preview.proposal.proposal import format_proposal, propose
from muster.preview.proposal.search import Values
from muster.replay.assumptions import AS_RECORDED
from muster.replay.player import ensure_player

_FILE = Path("stacks/Pulumi.bench.yaml")
_MIB = 1024


def main() -> None:
    arguments = _arguments()
    recording = read_trace(arguments.trace, most=arguments.jobs or None)
    teams = by_demand(recording)
    described = describe(teams, quota=arguments.quota, borrowed=arguments.borrow)
    text = yaml.safe_dump({"config": {f"{NAMESPACE}{key}": value for key, value in described.items()}})
    stack, found = examine(parse_text(text, source=str(_FILE)))
    assert stack is not None, found
    began = time.monotonic()

    def show(number: int, values: Values, sample: Sample) -> None:
        reached = ", ".join(goal.format(goal.value(sample)) for goal in subject.goals)
        print(f"{time.monotonic() - began:5.0f} s  replay {number}: {reached}", file=sys.stderr, flush=True)

    subject = Subject(
        file=_FILE,
        text=text,
        stack=stack,
        recording=recording,
        assumptions=AS_RECORDED,
        goals=[parse_goal(each.format(busiest=teams[0]), stack) for each in arguments.goal],
        keeps=[parse_goal(each, stack) for each in arguments.keep],
    )
    budget = Budget(evaluations=arguments.evaluations, seconds=arguments.seconds, jobs=arguments.players)
    answer = propose(subject, name="bench", program=ensure_player(), budget=budget, on_evaluation=show)
    wall = time.monotonic() - began
    print(format_proposal(answer, format_report))
    own, players = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    cpu = sum(each.ru_utime + each.ru_stime for each in (own, players))
    memory = f"{own.ru_maxrss / _MIB:.0f} MiB here, {players.ru_maxrss / _MIB:.0f} MiB in the largest player"
    print(f"{answer.evaluations} replays, {wall:.0f} s wall, {cpu:.0f} s CPU; {memory}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.plan", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--trace", type=Path, default=Path(__file__).parent / "traces/philly-gavel-30d.csv.gz"
    )
    parser.add_argument("--jobs", type=int, default=3000, help="only the first of the trace; 0: all")
    parser.add_argument("--quota", type=int, default=96, help="GPUs of each team")
    parser.add_argument("--borrow", type=int, default=0, help="GPUs that each team may borrow")
    parser.add_argument("--goal", nargs="+", default=["p95({busiest}) < 1h"], help="{busiest} is a team")
    parser.add_argument("--keep", nargs="+", default=[])
    parser.add_argument("--evaluations", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--players", type=int, default=min(os.cpu_count() or 1, 4))
    return parser.parse_args()


if __name__ == "__main__":
    main()
