"""Waits until Kueue knows which quota is in use.

Right after its start Kueue would assign quota a second time that Workloads hold already. It is ready when the
status of every ClusterQueue has the condition Active, and together they count every Workload that holds
quota.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from muster.live.conditions import find_condition
from muster.live.fields import items, number, text
from muster.live.snapshot import Workload
from muster.local.envtest import ControlPlane
from muster.model.names import KUEUE_API_VERSION
from muster.preview.whatif.fixtures import ManifestBatch
from muster.render.manifest import Manifest

_QUEUES: Final = f"/apis/{KUEUE_API_VERSION}/clusterqueues"
_MAX_SECONDS: Final = 600.0
# Much longer than the time between two status updates on a busy machine.
_STEADY_SECONDS: Final = 90.0
_DRAINED: Final = "HoldAndDrain"
_POLL_SECONDS: Final = 0.2
# Listing a thousand queues takes CPU time that Kueue needs, so the pause is this many times as long as the
# listing.
_LOAD_FACTOR: Final = 5


@dataclass(frozen=True, slots=True)
class UsageCount:
    """The status of all ClusterQueues together. `unreported`: how many have no condition Active yet."""

    queues: int
    unreported: int
    inactive: int
    reserving: int

    @property
    def is_active(self) -> bool:
        return not self.unreported and not self.inactive


@dataclass(frozen=True, slots=True)
class ExpectedUsage:
    """How many ClusterQueues there are, and how many Workloads they will count in the end."""

    queues: int
    reserving: int


def expected_usage(batches: Iterable[ManifestBatch], holding: Iterable[Workload]) -> ExpectedUsage:
    """The usage that these queues will report. A drained queue releases its Workloads."""
    every = [manifest for batch in batches for _, manifest in batch]
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
    """Wait until the usage is counted, or has not changed for long; returns whether all queues are active."""
    end = time.monotonic() + _MAX_SECONDS
    last, since = UsageCount(0, 0, 0, 0), time.monotonic()
    while (now := time.monotonic()) < end:
        queues: list[Mapping[str, Any]] = []
        with suppress(
            OSError
        ):  # Kueue has just changed the definition, and the kind is not served for a moment
            queues = [*items(plane.call("GET", _QUEUES), "items")]
        count = to_usage_count(queues)
        if count != last:
            last, since = count, now
        is_whole = count.reserving >= wanted.reserving or now - since > _STEADY_SECONDS
        if is_whole and count.queues == wanted.queues and not count.unreported:
            return count.is_active
        time.sleep(max(_POLL_SECONDS, _LOAD_FACTOR * (time.monotonic() - now)))
    return False


def to_usage_count(queues: Sequence[Mapping[str, Any]]) -> UsageCount:
    statuses = [text(find_condition(each, "Active"), "status") for each in queues]
    return UsageCount(
        queues=len(statuses),
        unreported=statuses.count(""),
        inactive=statuses.count("False"),
        reserving=sum(number(each, "status", "reservingWorkloads") or 0 for each in queues),
    )


def _name(manifest: Manifest) -> str:
    return str(manifest["metadata"]["name"])
