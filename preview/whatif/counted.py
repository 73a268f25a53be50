"""When Kueue knows what is taken.

In its first moments it would give quota that is held away a second time. Decides by what its ClusterQueues
say of themselves: each tells whether it is active, and together they count every Workload that holds.
"""

import time
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from localplane.bare import ControlPlane
from model.names import KUEUE_API_VERSION
from preview.fields import items, number, text
from preview.snapshot import Workload
from preview.whatif.outcome import condition

_QUEUES: Final = f"/apis/{KUEUE_API_VERSION}/clusterqueues"
_MOST_SECONDS: Final = 600.0
# A queue that is drained lets go of what it holds, and its count is never reached.
_STEADY_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.2
# A thousand queues are megabytes to write and to read, on the processors that Kueue needs.
_SHARE: Final = 5


@dataclass(frozen=True, slots=True)
class Count:
    """What the ClusterQueues say. `silent`: how many have not said yet whether they are active."""

    queues: int
    silent: int
    inactive: int
    reserving: int

    @property
    def is_active(self) -> bool:
        return not self.silent and not self.inactive


def await_counted(plane: ControlPlane, names: Set[str], holding: Sequence[Workload]) -> bool:
    """Until every Workload is counted in the ClusterQueues of these names, or nothing is counted any more:
    whether all of them are active.
    """
    wanted = sum(each.cluster_queue in names for each in holding)
    end = time.monotonic() + _MOST_SECONDS
    last, since = Count(0, 0, 0, 0), time.monotonic()
    while (now := time.monotonic()) < end:
        queues: list[Mapping[str, Any]] = []
        with suppress(OSError):  # Kueue has just changed the kind, and for a moment nobody serves it
            queues = [*items(plane.call("GET", _QUEUES), "items")]
        count = read(queues)
        if count != last:
            last, since = count, now
        is_whole = count.reserving >= wanted or now - since > _STEADY_SECONDS
        if is_whole and count.queues == len(names) and not count.silent:
            return count.is_active
        time.sleep(max(_PAUSE_SECONDS, _SHARE * (time.monotonic() - now)))
    return False


def read(queues: Sequence[Mapping[str, Any]]) -> Count:
    told = [text(condition(each, "Active"), "status") for each in queues]
    return Count(
        queues=len(told),
        silent=told.count(""),
        inactive=told.count("False"),
        reserving=sum(number(each, "status", "reservingWorkloads") or 0 for each in queues),
    )
