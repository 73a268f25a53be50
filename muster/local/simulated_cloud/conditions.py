"""The conditions of a ProvisioningRequest, with the reasons and messages of the two originals.

Reasons and messages are interfaces: Kueue copies messages into Workloads, and
controllers decide by reasons. Those of GKE are from provreqstate and reasons
of GoogleCloudPlatform/cluster-autoscaler, the others from conditions.go and
the provisioning classes of kubernetes/autoscaler.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from muster.local.simulated_cloud.objects import Condition

ACCEPTED: Final = "Accepted"
PROVISIONED: Final = "Provisioned"
FAILED: Final = "Failed"
BOOKING_EXPIRED: Final = "BookingExpired"
CAPACITY_REVOKED: Final = "CapacityRevoked"


@dataclass(frozen=True, slots=True)
class ConditionUpdate:
    """One condition as an autoscaler writes it."""

    type: str
    status: str
    reason: str
    message: str

    def with_message(self, message: str) -> ConditionUpdate:
        return ConditionUpdate(self.type, self.status, self.reason, message)


# GKE, queued-provisioning.gke.io
NOT_ACCEPTED: Final = ConditionUpdate(
    ACCEPTED, "False", "NotAccepted", "Provisioning Request wasn't accepted."
)
QUEUED: Final = ConditionUpdate(
    ACCEPTED, "True", "SuccessfullyQueued", "Provisioning Request was successfully queued."
)
NOT_PROVISIONED: Final = ConditionUpdate(
    PROVISIONED, "False", "NotProvisioned", "Provisioning Request wasn't provisioned."
)
POOL_EXHAUSTED: Final = ConditionUpdate(
    PROVISIONED,
    "False",
    "ResourcePoolExhausted",
    "There are currently not enough resources available to fulfill the request.",
)
GKE_PROVISIONED: Final = ConditionUpdate(
    PROVISIONED, "True", "Provisioned", "Provisioning Request was successfully provisioned."
)
GKE_BOOKING_EXPIRED: Final = ConditionUpdate(
    BOOKING_EXPIRED,
    "True",
    "BookingExpired",
    "Capacity booking for the Provisioning Request has expired and the nodes are now candidates for "
    "scale down when underutilized.",
)
GKE_REVOKED: Final = ConditionUpdate(
    CAPACITY_REVOKED,
    "True",
    "CapacityRevoked",
    "Capacity provisioned for the Provisioning Request was reclaimed and is no longer available "
    "in the cluster.",
)
STOCK_OUT: Final = ConditionUpdate(FAILED, "True", "ResourcePoolExhausted", POOL_EXHAUSTED.message)
MISSING_RESIZE_REQUEST: Final = ConditionUpdate(
    FAILED, "True", "MissingResizeRequest", "The corresponding Resize Request was missing."
)
NO_QUEUED_POOL: Final = ConditionUpdate(
    FAILED,
    "True",
    "NoQueuedNodepoolAvailable",
    "No nodepool with QueuedProvisioning enabled is available for scale up",
)
NOT_SCHEDULABLE: Final = ConditionUpdate(
    FAILED,
    "True",
    "ProvisioningRequestNotSchedulableInNodepool",
    "Provisioning Request's pods cannot be scheduled in the nodepool",
)
POOL_SIZE_REACHED: Final = ConditionUpdate(FAILED, "True", "NodepoolSizeReached", "Max nodepool size reached")
VM_FAILED: Final = ConditionUpdate(
    FAILED, "True", "InternalError", "The resize request failed: a VM could not be created."
)
# GKE never stores such a request: its admission webhook (GKE Warden) denies the create call with this text. A
# request that reaches this autoscaler exists already, so its status has the refusal instead.
WARDEN: Final = ConditionUpdate(
    FAILED, "True", "ProvisioningRequestDenied", "GKE Warden rejected the request"
)

# cluster-autoscaler, *.autoscaling.x-k8s.io
CA_ACCEPTED: Final = ConditionUpdate(
    ACCEPTED, "True", "Accepted", "ProvisioningRequest is accepted by ClusterAutoscaler"
)
FOUND: Final = ConditionUpdate(PROVISIONED, "True", "CapacityIsFound", "Capacity is found in the cluster")
# The original uses the message of CapacityIsFound here as well.
BOUGHT: Final = ConditionUpdate(
    PROVISIONED, "True", "CapacityIsProvisioned", "Capacity is found in the cluster"
)
NOT_FOUND: Final = ConditionUpdate(
    PROVISIONED, "False", "CapacityIsNotFound", "Capacity is not found, CA will try to find it later."
)
NOT_FOUND_FINAL: Final = ConditionUpdate(
    FAILED, "True", "CapacityIsNotFound", "CA could not find requested capacity"
)
NO_PODS: Final = ConditionUpdate(FAILED, "True", "FailedToCreatePods", "")
EXPIRED: Final = ConditionUpdate(FAILED, "True", "Expired", "ProvisioningRequest is expired")
CA_BOOKING_EXPIRED: Final = ConditionUpdate(
    BOOKING_EXPIRED, "True", "CapacityReservationTimeExpired", "Capacity reservation time is expired"
)


def missing_templates(referenced: int, missing: list[str]) -> str:
    return (
        f"missing pod templates, {referenced} pod templates were referenced, "
        f"{len(missing)} templates were missing: " + ",".join(missing)
    )


def denied(constraint: str) -> str:
    """GKE Warden's sentence around the violated constraint."""
    return (
        'admission webhook "warden-validating.common-webhooks.networking.gke.io" denied the request: '
        "GKE Warden rejected the request because it violates one or more constraints. Violations details: "
        f'{{"[denied by provisioning-request-cr-validation]":["{constraint}"]}}'
    )


SINGLE_POD_SET: Final = "the queued provisioning feature currently supports only single PodSet per request"


def written(
    conditions: tuple[Condition, ...],
    word: ConditionUpdate,
    *,
    now: float,
    generation: int,
    touch: bool = False,
) -> tuple[Condition, ...]:
    """The conditions with the update applied.

    The time moves when status, reason or message change, as GKE has it; with
    `touch` it moves in any case, as cluster-autoscaler has it, whose backoff
    counts from there. Accepted alone keeps the time of the first try: the
    backoff, which the original has in memory, is reckoned from it here.
    """
    old = next((condition for condition in conditions if condition.type == word.type), None)
    if (
        old is not None
        and (not touch or word.type == ACCEPTED)
        and (old.status, old.reason, old.message)
        == (
            word.status,
            word.reason,
            word.message,
        )
    ):
        return conditions
    new = Condition(word.type, word.status, word.reason, word.message, float(int(now)), generation)
    if old is None:
        return (*conditions, new)
    return tuple(new if condition is old else condition for condition in conditions)
