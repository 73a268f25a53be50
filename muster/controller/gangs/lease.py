"""When a gang's capacity is taken back.

Computes the end of a lease from its request alone. It counts from Provisioned, some minutes after the first
machine started: slightly late, which the notice ahead of the end allows for.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from muster.controller.gangs.objects import ProvisioningRequest
from muster.model.names import GKE_QUEUED_CLASS, LEASE_ENDS_ANNOTATION

LONGEST: Final = timedelta(days=7)
"""GKE's limit, and its default (cloud.google.com, "Run a large-scale workload
with flex-start with queued provisioning").
"""
RUN: Final = "maxRunDurationSeconds"
CLOCK_SKEW: Final = timedelta(minutes=1)
"""How far apart two programs may date one moment."""


def lease_end(request: ProvisioningRequest) -> datetime | None:
    """None for a request that is not provisioned, and for nodes that come without an end."""
    began = request.status.since("Provisioned")
    if began is None or request.spec.provisioning_class_name != GKE_QUEUED_CLASS:
        return None
    return began + run_duration(request.spec.parameters)


def run_duration(parameters: Mapping[str, str]) -> timedelta:
    """For how long a request with these gets its nodes."""
    asked = parameters.get(RUN, "")
    seconds = int(asked) if asked.isascii() and asked.isdigit() and len(asked) < 10 else None
    return LONGEST if seconds is None else min(LONGEST, timedelta(seconds=seconds))


def first_end(annotations: Iterable[Mapping[str, str]]) -> datetime | None:
    """When the first of a gang's leases ends, by what its pods carry: a gang that loses one is no longer
    complete.
    """
    ends = (parse_time(each.get(LEASE_ENDS_ANNOTATION, "")) for each in annotations)
    return min((end for end in ends if end), default=None)


def parse_time(text: str) -> datetime | None:
    """What `format_time` wrote; None for what cannot be read."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else None


def as_past(at: datetime | None, *, now: datetime) -> datetime | None:
    """A time that we have noted; None where it lies further ahead than clocks differ, because then another
    client has written it.
    """
    return at if at and at <= now + CLOCK_SKEW else None


def format_time(at: datetime) -> str:
    """As an annotation holds it."""
    return at.isoformat().replace("+00:00", "Z")
