"""The metrics of gangs and their requests: names, units and labels.

Every label is bounded: states, phases and outcomes are ours, classes and pools the policy's. gang_state.py
and each scheduler's room observe them; docs/metrics.md explains each and what to do about it.
"""

from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from muster.controller.gangs.reasons import RULES
from muster.controller.kube.resource import Key


class GangState(StrEnum):
    """The state of a gang, named as Kueue names it where it has a name."""

    QUEUED = "queued"
    """Waits for quota, or for room in its queue."""
    PROVISIONING = "provisioning"
    """Holds quota; its capacity is being gathered."""
    READY = "ready"
    """Fully provisioned; its scheduler has not started it yet."""
    RUNNING = "running"
    EVICTING = "evicting"
    """Its scheduler takes the quota back."""
    BACKING_OFF = "backing_off"
    """Released everything, holds no quota, retries later."""
    REFUSED = "refused"
    """No retry can help; waits for a person."""


SECONDS: Final = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400)
"""From a second to a day: capacity that is in stock comes in minutes, the default queueTimeout is 24 h."""

OTHER: Final = "other"
_DEADLINES: Final = ("queueTimeout", "provisionTimeout", "bookingWindow")


class GangMetrics:
    """Gauges cover the gangs that this process reconciles: those of a replica that does not lead are 0."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._of: dict[GangState, dict[Key, datetime]] = {state: {} for state in GangState}
        gangs = Gauge("muster_gangs", "Gangs by state", ["state"], registry=registry)
        oldest = Gauge(
            "muster_gang_oldest_timestamp_seconds",
            "Since when the gang that is longest in a state has been in it, seconds since 1970; 0: none is",
            ["state"],
            registry=registry,
        )
        for state, held in self._of.items():
            gangs.labels(state).set_function(partial(len, held))
            oldest.labels(state).set_function(partial(_oldest, held))
        self.unused_since = Gauge(
            "muster_gang_unused_quota_timestamp_seconds",
            "Since when the running gang that is longest without any pod has had none, seconds since 1970; "
            "0: none is",
            registry=registry,
        )
        self.phase_seconds = Histogram(
            "muster_gang_phase_seconds",
            "Time that gangs spent in a state which they have left",
            ["phase"],
            buckets=SECONDS,
            registry=registry,
        )
        self.retries = Counter(
            "muster_gang_retries", "Attempts that ended in a release, by why", ["reason"], registry=registry
        )
        self.refusals = Counter("muster_gang_refusals", "Gangs that were given up", registry=registry)
        self.requests = Counter(
            "muster_provisioning_requests",
            "ProvisioningRequests of ours by outcome",
            ["class", "pool", "outcome"],
            registry=registry,
        )
        self.unused_node_seconds = Counter(
            "muster_gang_unused_node_seconds",
            "Time for which placeholders had nodes that no gang started on, by why",
            ["pool", "reason"],
            registry=registry,
        )
        self.request_seconds = Histogram(
            "muster_provisioning_request_seconds",
            "Time until a ProvisioningRequest was Accepted, and from then until it was Provisioned",
            ["class", "phase"],
            buckets=SECONDS,
            registry=registry,
        )

    def of(self, state: GangState) -> list[Key]:
        """The gangs that are in a state now."""
        return list(self._of[state])

    def move(self, key: Key, *, before: GangState | None, after: GangState, since: datetime) -> None:
        """The gauges follow one gang."""
        self.forget(key, before)
        self._of[after][key] = since

    def forget(self, key: Key, state: GangState | None) -> None:
        if state is not None:
            self._of[state].pop(key, None)


def slug(words: str) -> str:
    return words.replace(" ", "_")


def reason_of(failure: str) -> str:
    """Why an attempt failed, as a label: the summary of a rule, the clock that ran out, or `other`."""
    for rule in RULES:
        if failure.startswith(rule.summary):
            return slug(rule.summary)
    return next((f"{clock}_passed" for clock in _DEADLINES if failure.startswith(clock)), OTHER)


def _oldest(held: dict[Key, datetime]) -> float:
    return min(held.values()).timestamp() if held else 0.0
