"""When Kueue knows what is taken.

In its first moments it would give quota that is held away a second time. Decides by what its ClusterQueues
say of themselves: each tells whether it is active, and together they count every Workload that holds.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from muster.live.fields import items, number, text
from muster.live.snapshot import Workload
from muster.local.envtest import ControlPlane
from muster.model.names import KUEUE_API_VERSION
from muster.preview.whatif.fixtures import Act
from muster.preview.whatif.outcome import condition
from muster.render.manifest import Manifest

_QUEUES: Final = f"/apis/{KUEUE_API_VERSION}/clusterqueues"
_MOST_SECONDS: Final = 600.0
# Long beside the time between two words of Kueue on a busy machine.
_STEADY_SECONDS: Final = 90.0
_DRAINED: Final = "HoldAndDrain"
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


@dataclass(frozen=True, slots=True)
class Expected:
    """How many ClusterQueues there are, and how many Workloads they have to count."""

    queues: int
    reserving: int


def expected(acts: Iterable[Act], holding: Iterable[Workload]) -> Expected:
    """Of what these queues hold. One that is drained lets go of it."""
    every = [manifest for act in acts for _, manifest in act]
    queues = {_name(each) for each in every if each["kind"] == "ClusterQueue"}
    drained = {
        (each["metadata"].get("namespace"), _name(each))
        for each in every
        if each["kind"] in ("ClusterQueue", "LocalQueue") and each["spec"].get("stopPolicy") == _DRAINED
    }
    kept = [
        each for each in holding if not drained & {(None, each.cluster_queue), (each.namespace, each.queue)}
    ]
    return Expected(len(queues), sum(each.cluster_queue in queues for each in kept))


def await_counted(plane: ControlPlane, wanted: Expected) -> bool:
    """Until that is counted, or nothing has been counted for long: whether all queues are active."""
    end = time.monotonic() + _MOST_SECONDS
    last, since = Count(0, 0, 0, 0), time.monotonic()
    while (now := time.monotonic()) < end:
        queues: list[Mapping[str, Any]] = []
        with suppress(OSError):  # Kueue has just changed the kind, and for a moment nobody serves it
            queues = [*items(plane.call("GET", _QUEUES), "items")]
        count = read(queues)
        if count != last:
            last, since = count, now
        is_whole = count.reserving >= wanted.reserving or now - since > _STEADY_SECONDS
        if is_whole and count.queues == wanted.queues and not count.silent:
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


def _name(manifest: Manifest) -> str:
    return str(manifest["metadata"]["name"])
