"""Measures how long `muster what-if` takes, by number of ClusterQueues and by how much of the tree changed.

    python -m bench.whatif --queues 1000 --running 8000 --waiting 2000 --changed one all > table.md

Generated teams in 20 departments that lend within each, full of running work, with the given number of
pending Workloads. Head gives every other team of one department, or of all, two more GPUs. Measured are wall
time and the CPU time of all processes, which depends less on other load of the machine. `--engine
control-plane` is the slow way, which the player is checked against.
"""

import argparse
import os
import resource
import sys
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

from muster import config
from muster.model.stack import Stack
from muster.preview.whatif.kueue import simulate_both
from muster.preview.whatif.scenario import Outcome, Scenario, synthetic_snapshot
from muster.replay.player import ensure_player
from tests import envtest
from tests.integration.whatif.simulate import simulate

_DEPARTMENTS = 20
_GPUS = 20


@dataclass(frozen=True, slots=True)
class Timing:
    wall: float
    cpu: float
    sides: tuple[Outcome, Outcome]


def main() -> None:
    arguments = _arguments()
    print("| queues | Workloads | of these waiting | departments changed | wall s | CPU s | load before |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    for changed in arguments.changed:
        load = os.getloadavg()[0]
        count = 1 if changed == "one" else _DEPARTMENTS
        timing = measure(arguments, count)
        every = len(timing.sides[0].decisions)
        row = (arguments.queues, every, arguments.waiting, count, f"{timing.wall:.0f}", f"{timing.cpu:.0f}")
        print("|", " | ".join(map(str, row)), f"| {load:.1f} |", flush=True)
        for side, outcome in zip(("base", "head"), timing.sides, strict=True):
            states = dict(Counter(each.state.value for each in outcome.decisions.values()))
            print(
                f"{side}: settled {outcome.is_settled}, unseen {outcome.unexplained}, {states}",
                file=sys.stderr,
            )


def measure(arguments: argparse.Namespace, changed: int) -> Timing:
    base, head = stack(arguments.queues, changed=0), stack(arguments.queues, changed=changed)
    snapshot = synthetic_snapshot(base, running=arguments.running, pending=arguments.waiting)
    scenario, program = Scenario(snapshot=snapshot), ensure_player()
    plane = envtest.ensure() if arguments.engine == "control-plane" else None
    used, began = _cpu(), time.monotonic()
    if plane is None:
        sides = simulate_both(base, head, scenario, program=program)
    else:
        before, after = (simulate(each, scenario, plane, max_seconds=arguments.most) for each in (base, head))
        sides = before, after
    return Timing(time.monotonic() - began, _cpu() - used, sides)


def stack(queues: int, *, changed: int) -> Stack:
    """Every other team of the first `changed` departments has two more GPUs."""
    each = queues // _DEPARTMENTS

    def team(department: int, index: int) -> dict[str, Any]:
        more = 2 if department < changed and index % 2 else 0
        return {"quota": {"l4": _GPUS + more}, "borrow": {"l4": 8}}

    departments = {
        f"d{department}": {
            "teams": {f"t{department}-{index}": team(department, index) for index in range(each)}
        }
        for department in range(_DEPARTMENTS)
    }
    gpus = {"accelerator": "nvidia-l4", "machine": "g2-standard-96", "gpusPerNode": 8, "maxNodes": queues * 3}
    return config.parse(
        {
            "cluster": {"provider": "existing", "name": "bench", "context": "bench"},
            "pools": {"cpu": {"machine": "local-cpu", "minNodes": 1, "maxNodes": 1}, "l4": gpus},
            "priorities": {"prod": 1000, "dev": 100},
            "departments": departments,
        },
        source="bench",
    )


def _cpu() -> float:
    """CPU time of this process and of its finished child processes."""
    own, started = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + started.ru_utime + started.ru_stime


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.whatif",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--queues", type=int, default=1000, help=f"a multiple of {_DEPARTMENTS}")
    parser.add_argument("--running", type=int, default=8000, help="at most, as the quotas hold")
    parser.add_argument("--waiting", type=int, default=2000)
    parser.add_argument("--changed", nargs="+", choices=["one", "all"], default=["one", "all"])
    parser.add_argument("--engine", choices=["player", "control-plane"], default="player")
    parser.add_argument("--most", type=float, default=1800, help="seconds for a side")
    return parser.parse_args()


if __name__ == "__main__":
    main()
