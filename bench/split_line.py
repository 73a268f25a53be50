"""What gangs of two shapes cost, and how fast they start: `python -m bench.split_line two-shapes:100`.

Runs the controller's own loop on virtual time, before stand-ins for the API server, Kueue and the cloud
(tests/unit/admission/fleet.py): calls and seconds are exact and the same on every machine, CPU is this one's
and includes the stand-ins. For a real API server see bench.gangs.

    one-shape:N    N gangs with one request, quota for all at once, a call takes 25 ms, nodes come at once
    two-shapes:N   the same with two requests each, all in the same two pools
    split-line:N   two-shapes with nodes that take eight minutes and a cloud that takes a second to accept
    split-line-one-shape:N   the same with one request each
    disjoint:N     two-shapes, each gang in two pools of its own: seconds until each has its first request
"""

import argparse
import dataclasses
import logging
import sys
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from tests.unit.admission.fleet import ONE_SHAPE, TWO_SHAPES, Costs, Pieces, costs
from tests.unit.admission.gang_world import POLICY
from tests.unit.gangs.paper import flavor_policy

_DEFAULT: Final = ("one-shape:25", "one-shape:100", "two-shapes:25", "two-shapes:100", "split-line:10")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", default=_DEFAULT, type=_case, metavar="CASE:N")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    print("| case | status writes | calls a gang | CPU a gang, ms | first request, s | last Ready, s |")
    print("|---|---:|---:|---:|---:|---:|")
    for case in parser.parse_args(argv).cases:
        name, _, count = case.partition(":")
        found = _CASES[name](int(count))
        calls = found.calls
        print(
            f"| {case} | {calls.get('apply Workload', 0):.1f} | {sum(calls.values()):.1f} | {found.cpu:.1f} "
            f"| {found.last_asked:.1f} | {found.last_ready:.1f} |",
            flush=True,
        )
    return 0


def _disjoint(count: int) -> Costs:
    pools = tuple(f"pool-{number}" for number in range(2 * count))
    policy = dataclasses.replace(
        POLICY, flavors=tuple(flavor_policy(name, number) for number, name in enumerate(pools))
    )
    gangs: list[Pieces] = [
        {"big": (pools[2 * number], 1), "small": (pools[2 * number + 1], 1)} for number in range(count)
    ]
    return costs(count, lambda number: gangs[number], policy=policy, pools=pools)


_CASES: Final[dict[str, Callable[[int], Costs]]] = {
    "one-shape": lambda count: costs(count, lambda _: ONE_SHAPE),
    "two-shapes": lambda count: costs(count, lambda _: TWO_SHAPES),
    "split-line": lambda count: costs(
        count, lambda _: TWO_SHAPES, accepts=lambda _: 1.0, starts=lambda _: 480.0
    ),
    "split-line-one-shape": lambda count: costs(
        count, lambda _: ONE_SHAPE, accepts=lambda _: 1.0, starts=lambda _: 480.0
    ),
    "disjoint": _disjoint,
}


def _case(text: str) -> str:
    name, _, count = text.partition(":")
    if name not in _CASES or not count.isdecimal() or not int(count):
        raise argparse.ArgumentTypeError(f"{text!r}: must be one of {', '.join(_CASES)}, and :N behind it")
    return text


if __name__ == "__main__":
    sys.exit(main())
