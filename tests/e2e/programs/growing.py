"""A Ray program that holds as many GPUs as it is told; runs in the head of a cluster.

Each number on standard input is how many GPUs it wants from then on. It says `wants N` when it has asked Ray,
and `has N` when Ray has given them all. It ends with its input. The test sends this file into the head as it
lies here, so it imports nothing of the checkout.
"""

from __future__ import annotations

import queue
import sys
import threading

import ray
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group

# Ray waits whole seconds: of less nothing is left, and each wait leaves something behind in its server,
# which was full after two minutes.
_POLL = 1


def main() -> None:
    ray.init(address="auto", log_to_driver=False)
    lines: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_read, args=(lines,), daemon=True).start()
    held: dict[PlacementGroup, int] = {}  # and of how many GPUs each is
    while line := lines.get():
        wanted = int(line)
        _hold(held, wanted)
        print(f"wants {wanted}", flush=True)
        while lines.empty() and not all(group.wait(_POLL) for group in held):
            pass
        if lines.empty():
            print(f"has {wanted}", flush=True)


def _read(lines: queue.Queue[str]) -> None:
    for line in sys.stdin:
        lines.put(line)
    lines.put("")


def _hold(held: dict[PlacementGroup, int], wanted: int) -> None:
    """One question for all that is missing: asked one by one, Ray's autoscaler may look between two, and grow
    twice. A group is held whole, so that for less than it all is given back and asked for anew.
    """
    if sum(held.values()) > wanted:
        for group in held:
            remove_placement_group(group)
        held.clear()
    missing = wanted - sum(held.values())
    if missing:
        held[placement_group([{"GPU": 1}] * missing)] = missing


main()
