"""What a gang costs on the real Karpenter, by placeholders and the plain way.

`python -m bench.karpenter [--nodes 4] [--rounds 4] [--boot SECONDS]` needs the programs that
`make test-karpenter` builds. Times are from the creation of the job. Unless it is said how long an instance
boots, they are what Kueue, Muster, Karpenter and the scheduler take, and stock for half is measured too.
Calls are those of the API server's audit log.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import yaml

from bench.gangs import audit, machine
from bench.karpenter.calls import Span, cost
from tests.karpenter.world import PLACEHOLDERS, STACK, World, world

_GPUS: Final = 8
_DEADLINE: Final = 15
_LONGEST: Final = 240.0
_PAUSE: Final = 0.05
_WAYS: Final = {"placeholders": "h100", "plain": "plain"}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.karpenter", description=__doc__)
    parser.add_argument("--nodes", type=int, default=4, help="of a gang, a pod on each [4]")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--boot", type=int, default=0, metavar="SECONDS", help="how long an instance boots")
    given = parser.parse_args()
    nodes, rounds, boot = given.nodes, given.rounds, given.boot
    here = machine.here()
    print(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {here}, load {here.load:.1f}, boot {boot} s", flush=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        world(Path(folder), source=_stack(Path(folder), nodes), audit=audit.flags(Path(folder))) as made,
    ):
        made.boots(f"{boot}s")
        took: dict[str, list[float]] = {way: [] for way in _WAYS}
        spans: dict[str, list[Span]] = {way: [] for way in _WAYS}
        for number in range(rounds + 1):
            for way, pool in _WAYS.items():
                seconds, span = _start(made, pool, nodes)
                if number:  # the first warms everything up
                    took[way].append(seconds)
                    spans[way].append(span)
        with audit.log_of(Path(folder)).open("rb") as log:
            calls = list(audit.calls(log))
        for way, found in took.items():
            each = ", ".join(f"{one:.2f}" for one in sorted(found))
            print(
                f"{way}: all {nodes} run after {statistics.median(found):.2f} s (median of {each})",
                flush=True,
            )
            print(f"{way}: {cost(calls, spans[way])}", flush=True)
        medians = {way: statistics.median(found) for way, found in took.items()}
        print(f"placeholders take {medians['placeholders'] / medians['plain']:.2f} times as long", flush=True)
        if not boot:
            _torn(made, nodes)
    return 0


def _stack(folder: Path, nodes: int) -> Path:
    """The stack of the tests, with pools and quotas that are large enough."""
    stack = yaml.safe_load(STACK.read_text(encoding="utf-8"))
    (team,) = stack["config"]["muster:departments"]["research"]["teams"].values()
    for pool in _WAYS.values():
        stack["config"]["muster:pools"][pool]["maxNodes"] = nodes
        team["quota"][pool] = nodes * _GPUS
    file = folder / STACK.name
    file.write_text(yaml.safe_dump(stack), encoding="utf-8")
    return file


def _start(made: World, pool: str, nodes: int) -> tuple[float, Span]:
    made.sells(h100=nodes)
    since, begun = datetime.now(UTC), time.monotonic()
    made.gang("bench", nodes, pool=pool)
    _until(lambda: made.running("bench") == nodes)
    took = time.monotonic() - begun
    _until(lambda: not made.items(PLACEHOLDERS) and not made.held())
    span = Span(since, datetime.now(UTC))
    made.clear()
    return took, span


def _torn(made: World, nodes: int) -> None:
    """Stock for half: what is bought, and when it is given back."""
    wasted = "about {:.1f} GPU-minutes bought and not used"
    made.sells(h100=nodes // 2)
    deadline = {"provisionTimeout": f"{_DEADLINE}s", "retry": {"base": "30m", "max": "30m"}}
    with made.managed.policy(**deadline):
        begun = time.monotonic()
        made.gang("bench", nodes)
        _until(lambda: made.has_quota("bench"))
        _until(lambda: len(made.nodes()) == nodes // 2)
        _until(lambda: not made.has_quota("bench"))
        free = time.monotonic() - begun
        said = made.said("bench")
        paid = _paid(made, begun)
    gone = time.monotonic() - begun
    print(f"placeholders, stock for half: quota free after {free:.1f} s of a deadline of {_DEADLINE} s,")
    print(f"nodes gone after {gone:.1f} s, {wasted.format(paid)}")
    print(f"the check says: {said}", flush=True)
    made.clear()
    made.sells(h100=nodes // 2)
    begun = time.monotonic()
    made.gang("bench", nodes, pool="plain")
    _until(lambda: made.running("bench") == nodes // 2)
    paid = _paid(made, begun, until=begun + gone)
    bound, standing = made.running("bench"), len(made.nodes())
    print(
        f"plain, in the same time: {bound} of {nodes} pods run, {standing} nodes stay, {wasted.format(paid)}"
    )
    made.clear()


def _paid(made: World, begun: float, *, until: float | None = None) -> float:
    """GPU-minutes of the nodes, which stand since a moment after `begun`, until they are gone, or `until`."""
    minutes = (time.monotonic() - begun) * len(made.nodes()) * _GPUS / 60
    last = time.monotonic()
    while (nodes := len(made.nodes())) and (until is None or last < until) and last < begun + _LONGEST:
        time.sleep(_PAUSE)
        now = time.monotonic()
        minutes += (now - last) * nodes * _GPUS / 60
        last = now
    return minutes


def _until(reached: Callable[[], object]) -> None:
    end = time.monotonic() + _LONGEST
    while not reached():
        if time.monotonic() > end:
            raise TimeoutError("a step of the bench never came true")
        time.sleep(_PAUSE)


if __name__ == "__main__":
    sys.exit(main())
