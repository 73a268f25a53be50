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
from muster.preview.whatif.fixtures import ManifestBatch
from muster.preview.whatif.outcome import find_condition
from muster.render.manifest import Manifest

_QUEUES: Final = f"/apis/{KUEUE_API_VERSION}/clusterqueues"
_MAX_SECONDS: Final = 600.0
# Long beside the time between two words of Kueue on a busy machine.
_STEADY_SECONDS: Final = 90.0
_DRAINED: Final = "HoldAndDrain"
_POLL_SECONDS: Final = 0.2
# A thousand queues are megabytes to write and to read, on the processors that Kueue needs.
_LOAD_FACTOR: Final = 5


@dataclass(frozen=True, slots=True)
class UsageCount:
    """What the ClusterQueues say. `silent`: how many have not said yet whether they are active."""

    queues: int
    silent: int
    inactive: int
    reserving: int

    @property
    def is_active(self) -> bool:
        return not self.silent and not self.inactive


@dataclass(frozen=True, slots=True)
class ExpectedUsage:
    """How many ClusterQueues there are, and how many Workloads they have to count."""

    queues: int
    reserving: int


def expected_usage(acts: Iterable[ManifestBatch], holding: Iterable[Workload]) -> ExpectedUsage:
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
    return ExpectedUsage(len(queues), sum(each.cluster_queue in queues for each in kept))


def wait_for_usage_sync(plane: ControlPlane, wanted: ExpectedUsage) -> bool:
    """Until that is counted, or nothing has been counted for long: whether all queues are active."""
    end = time.monotonic() + _MAX_SECONDS
    last, since = UsageCount(0, 0, 0, 0), time.monotonic()
    while (now := time.monotonic()) < end:
        queues: list[Mapping[str, Any]] = []
        with suppress(OSError):  # Kueue has just changed the kind, and for a moment nobody serves it
            queues = [*items(plane.call("GET", _QUEUES), "items")]
        count = to_usage_count(queues)
        if count != last:
            last, since = count, now
        is_whole = count.reserving >= wanted.reserving or now - since > _STEADY_SECONDS
        if is_whole and count.queues == wanted.queues and not count.silent:
            return count.is_active
        time.sleep(max(_POLL_SECONDS, _LOAD_FACTOR * (time.monotonic() - now)))
    return False


def to_usage_count(queues: Sequence[Mapping[str, Any]]) -> UsageCount:
    told = [text(find_condition(each, "Active"), "status") for each in queues]
    return UsageCount(
        queues=len(told),
        silent=told.count(""),
        inactive=told.count("False"),
        reserving=sum(number(each, "status", "reservingWorkloads") or 0 for each in queues),
    )


def _name(manifest: Manifest) -> str:
    return str(manifest["metadata"]["name"])
