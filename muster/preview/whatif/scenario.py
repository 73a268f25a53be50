"""What a side simulates: the Workloads of a snapshot, and how long their jobs run."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from muster.live.errors import PreviewError
from muster.live.snapshot import Snapshot, Workload
from muster.replay import stored


class WhatIfError(PreviewError):
    """A side cannot be simulated."""


@dataclass(frozen=True, slots=True)
class Clock:
    """How long jobs run. `durations`: seconds by namespace, "" for all others. `compression`: how many of
    those seconds pass in one real second, where time cannot jump.
    """

    durations: Mapping[str, float]
    compression: float

    def seconds(self, namespace: str) -> float | None:
        """How long a job of this namespace runs; None without a duration."""
        return self.durations.get(namespace, self.durations.get(""))

    def remaining(self, namespace: str, ran: float) -> float | None:
        """Real seconds until a job ends that has run for `ran` seconds of its own; None without a
        duration.
        """
        found = self.seconds(namespace)
        return None if found is None else max(found - ran, 0.0) / self.compression


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What to simulate. `max_seconds`: after this time a side is reported as far as it is. Without `clock`,
    jobs never end.
    """

    snapshot: Snapshot
    clock: Clock | None = None
    max_seconds: float = 600.0

    @property
    def holding(self) -> list[Workload]:
        return [each for each in self.snapshot.workloads if each.is_holding]

    @property
    def waiting(self) -> list[Workload]:
        """In the order in which Kueue would consider them."""
        found = (each for each in self.snapshot.workloads if not each.is_holding)
        return sorted(found, key=lambda each: (-each.priority, each.created))

    def ran(self, workload: Workload) -> float:
        """Seconds that a Workload with quota had run when the snapshot was taken."""
        since = workload.since("Admitted") or self.snapshot.taken
        return max((self.snapshot.taken - since).total_seconds(), 0.0)

    def equivalence_keys(self) -> dict[str, Hashable]:
        """uid -> everything that Kueue decides by. Two Workloads with equal values are pending for the same
        reason.
        """
        return {
            stored.uid(each.namespace, each.name): (
                each.namespace,
                each.queue,
                each.priority,
                str(
                    [
                        (pods.count, pods.min_count, pods.requests, pods.node_selector)
                        for pods in each.pod_sets
                    ]
                ),
                str([(pods.tolerations, pods.terms) for pods in each.pod_sets]),
            )
            for each in self.snapshot.workloads
        }
