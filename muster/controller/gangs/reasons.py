"""Why capacity was not provisioned or was lost, and what follows.

A table from the conditions that autoscalers write, and from the API server's rejections, to retry, requeue or
refuse. A refusal deactivates the Workload until a person acts, so only what no retry can fix is refused; what
is not in the table counts as temporary.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from muster.controller.gangs.objects import Condition, ProvisioningRequest


class Outcome(StrEnum):
    RETRY = "retry"
    """Release everything, wait outside the quota, try again."""
    NEXT_FLAVOR = "next flavor"
    """As RETRY, in another flavor of the queue where the policy says so and there is one."""
    REQUEUE = "requeue"
    """The gang was running: evict it and let it queue again at once."""
    REFUSE = "refuse"
    """No retry can help; say so and stop."""
    IGNORE = "ignore"
    """Looks like a failure and is none."""


@dataclass(frozen=True, slots=True)
class Rule:
    """The first rule whose condition and words fit decides."""

    condition: str
    pattern: re.Pattern[str]
    outcome: Outcome
    summary: str


@dataclass(frozen=True, slots=True)
class Loss:
    """A request that is not, or no longer, worth waiting for."""

    request: ProvisioningRequest
    outcome: Outcome
    summary: str
    detail: str

    def __str__(self) -> str:
        return f"{self.summary}: {self.detail}"


def _rule(condition: str, pattern: str, outcome: Outcome, summary: str) -> Rule:
    return Rule(condition, re.compile(pattern, re.IGNORECASE), outcome, summary)


STALLED: Final = "no node came"
"""How the failure of a gang begins that kept a part of its nodes while no further one came."""

ON_CREATE: Final = ""
"""In the place of a condition: the API server's answer to the creation of what an attempt needs."""

RULES: Final = (
    # The pods took what was booked (kubernetes/autoscaler 9806): the request was used as intended.
    _rule("BookingExpired", r"^CapacityBookingConsumed\b", Outcome.IGNORE, "booking consumed"),
    _rule("CapacityRevoked", r"", Outcome.RETRY, "capacity revoked"),
    _rule(
        "Failed",
        r"^(Invalid|Unsupported|NotSupported|Malformed|BadRequest)",
        Outcome.REFUSE,
        "request refused",
    ),
    _rule("Failed", r"quota", Outcome.NEXT_FLAVOR, "cloud quota exhausted"),
    _rule(
        "Failed",
        r"CapacityIsNotFound|out.?of.?resources|exhausted|stock",
        Outcome.NEXT_FLAVOR,
        "out of stock",
    ),
    # Behind those that retry: a stock-out may come with the words of a refusal, and not the other way round.
    _rule("Failed", r"only single PodSet|not supported|is invalid", Outcome.REFUSE, "request refused"),
    _rule("Failed", r"^Expired|^CapacityReservationTimeExpired", Outcome.RETRY, "request expired"),
    _rule("Failed", r"", Outcome.RETRY, "provisioning failed"),
    _rule("BookingExpired", r"", Outcome.RETRY, "booking expired"),
    _rule(ON_CREATE, r"^Altered$", Outcome.RETRY, "changed by a webhook"),
    # GKE denies at once what its autoscaler could never serve. Other people's policies may change.
    _rule(ON_CREATE, r"GKE Warden rejected", Outcome.REFUSE, "request refused"),
    _rule(ON_CREATE, r"failed calling webhook", Outcome.RETRY, "webhook not reached"),
    _rule(ON_CREATE, r"denied (the )?request", Outcome.RETRY, "denied by a policy"),
    _rule(ON_CREATE, r"^(Invalid|BadRequest)$", Outcome.REFUSE, "request refused"),
    _rule(ON_CREATE, r"exceeded quota", Outcome.RETRY, "namespace quota exhausted"),
    _rule(ON_CREATE, r"^NameTaken$", Outcome.RETRY, "name taken"),
    _rule(ON_CREATE, r"^NotFound$", Outcome.RETRY, "namespace or kind missing"),
    _rule(ON_CREATE, r"^ServerError$", Outcome.RETRY, "API server in trouble"),
    _rule(ON_CREATE, r"", Outcome.RETRY, "creation forbidden"),
)

AFTER_ADMISSION: Final = frozenset({"CapacityRevoked"})
"""A running gang loses nothing when its request fails or its booking ends late: it has its nodes."""


def loss(request: ProvisioningRequest, *, admitted: bool, held: bool = False) -> Loss | None:
    """What the request's conditions say is lost, or None. Of an admitted gang only its leases count; what is
    `held` needs no booking.
    """
    harmless: set[str] = {"BookingExpired"} if held else set()
    for rule in RULES:
        condition = request.status.condition(rule.condition)
        if condition is None or condition.status != "True" or rule.condition in harmless:
            continue
        if (admitted and rule.condition not in AFTER_ADMISSION) or not _fits(rule, condition):
            continue
        if rule.outcome is Outcome.IGNORE:
            harmless.add(rule.condition)  # What else the request says still counts.
            continue
        outcome = Outcome.REQUEUE if admitted else rule.outcome
        return Loss(request, outcome, rule.summary, _text(condition))
    return None


def classify_rejection(reason: str, message: str) -> tuple[Outcome, str]:
    """What follows when the creation of a request, or of what it needs, is denied with these words; and the
    summary of them.
    """
    answer = Condition(type=ON_CREATE, status="True", reason=reason, message=message)
    rule = next(rule for rule in RULES if rule.condition == ON_CREATE and _fits(rule, answer))
    return rule.outcome, rule.summary


def _fits(rule: Rule, condition: Condition) -> bool:
    return any(rule.pattern.search(text) for text in (condition.reason, condition.message))


def _text(condition: Condition) -> str:
    """The autoscaler's own words, cut to what fits into a condition beside ours."""
    return ": ".join(text for text in (condition.reason, condition.message) if text)[:600]
