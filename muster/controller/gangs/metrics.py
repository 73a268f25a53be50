"""The metrics of gangs and their requests: names, units and labels.

Every label is bounded: states, phases and outcomes are ours, classes and pools the policy's. gang_state.py
and each scheduler's room observe them. `make reference` writes the help texts into docs/reference/metrics.md.
"""

from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from muster.controller.gangs.reasons import RULES, STALLED
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
        gangs = Gauge(
            "muster_gangs",
            "Gangs now: `queued` (waits for quota), `provisioning` (holds quota and waits for "
            "capacity), `ready` (has all its capacity, not admitted yet), `running`, `evicting`, "
            "`backing_off` (released everything, tries later), `refused`",
            ["state"],
            registry=registry,
        )
        oldest = Gauge(
            "muster_gang_oldest_timestamp_seconds",
            "When the gang that has been in this state longest entered it; 0 when there is none",
            ["state"],
            registry=registry,
        )
        for state, held in self._of.items():
            gangs.labels(state).set_function(partial(len, held))
            oldest.labels(state).set_function(partial(_oldest, held))
        self.unused_since = Gauge(
            "muster_gang_unused_quota_timestamp_seconds",
            "Since when a running gang has had no pod on its capacity (the one with the longest "
            "such time), checked once a minute; 0 when all have pods. Covers only gangs with "
            "ProvisioningRequests. A new leader counts from its own first check. Always 0 with "
            "KAI, where only pods hold quota",
            registry=registry,
        )
        self.pods_without_quota = Gauge(
            "muster_gang_pods_without_quota",
            "Pods with devices in namespaces of teams that have had no quota for longer than they may, and "
            "that could not be deleted at the last look. Always 0 with KAI, where only pods hold quota",
            registry=registry,
        )
        self.deleted_without_quota = Counter(
            "muster_gang_pods_without_quota_deleted",
            "Pods with devices that the controller deleted because their work had no quota",
            registry=registry,
        )
        self.gpu_use = Gauge(
            "muster_gang_gpu_use",
            "Running gangs in queues with `idle`, by what their GPUs did at the last look: `busy`, `idle`, "
            "or `unknown` (a page of dcgm-exporter is missing, old or contradicts itself)",
            ["use"],
            registry=registry,
        )
        self.stopped_idle = Counter(
            "muster_gang_idle_stops",
            "Gangs that the controller stopped as idle",
            registry=registry,
        )
        self.phase_seconds = Histogram(
            "muster_gang_phase_seconds",
            "How long gangs were in the state that they have left, by the API's timestamps",
            ["phase"],
            buckets=SECONDS,
            registry=registry,
        )
        self.retries = Counter(
            "muster_gang_retries",
            "Attempts that ended in a release: `out_of_stock`, `no_node_came`, "
            "`provisionTimeout_passed`, ...; "
            "where the API server did not create a request: `denied_by_a_policy`, "
            "`namespace_quota_exhausted`, `creation_forbidden`, `name_taken`, "
            "`namespace_or_kind_missing`, `API_server_in_trouble`, "
            "`changed_by_a_webhook`",
            ["reason"],
            registry=registry,
        )
        self.refusals = Counter(
            "muster_gang_refusals", "Gangs that the controller refused", registry=registry
        )
        self.requests = Counter(
            "muster_provisioning_requests",
            "Our ProvisioningRequests: `asked`, `accepted`, `provisioned`, `withdrawn` (deleted "
            "before it was provisioned), or why it failed: `out_of_stock`, "
            "`cloud_quota_exhausted`, `request_refused`, `request_expired`, `booking_expired`, "
            "`capacity_revoked`, `provisioning_failed`",
            ["class", "pool", "outcome"],
            registry=registry,
        )
        self.unused_node_seconds = Counter(
            "muster_gang_unused_node_seconds",
            "How long placeholders had nodes that no gang started on (`gangs: placeholders`): "
            "`provisionTimeout_passed`, ... as of `muster_gang_retries_total`; `gang_gone`: its "
            "job ended or was deleted; `asked_again`: it gave way to another gang, lost its "
            "quota, or the node was lost",
            ["pool", "reason"],
            registry=registry,
        )
        self.broken_nodes = Gauge(
            "muster_gang_broken_nodes",
            "Nodes with a sign of `brokenNodes`: `set_aside` (closed by our taint), `beyond_bound` (as many "
            "are set aside as may be: no gang starts on it, other pods may; known to the leader alone)",
            ["state"],
            registry=registry,
        )
        self.request_seconds = Histogram(
            "muster_provisioning_request_seconds",
            "Time of one step of a ProvisioningRequest: `accept` (created to Accepted), "
            "`provision` (Accepted to Provisioned)",
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
    if failure.startswith(STALLED):
        return slug(STALLED)
    return next((f"{clock}_passed" for clock in _DEADLINES if failure.startswith(clock)), OTHER)


def _oldest(held: dict[Key, datetime]) -> float:
    return min(held.values()).timestamp() if held else 0.0
