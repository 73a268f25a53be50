"""The deadlines of an attempt.

Computes the one moment at which an attempt ends, and which of the policy's fields sets it. Deadlines start at
timestamps of API objects, so a restart does not move them. A timestamp ahead of our own clock counts as now:
clocks of two machines differ, and no gang waits longer because of it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from muster.controller.gangs.autoscaler_words import BOOTING, NONE_COMES
from muster.controller.gangs.objects import ProvisioningRequest
from muster.controller.gangs.placeholder_sets import PlaceholderSet
from muster.controller.gangs.split import Gang
from muster.model.gangpolicy import GangPolicy

SETTLED_AFTER: Final = timedelta(seconds=10)
"""A gang that waits reports why when nothing of it has changed for so long, or for a tenth of the time since
its requests were answered: most go on before, and nodes that come one after another would each be a write.
"""

WORDS_LAST: Final = timedelta(seconds=30)
"""For so long a gang keeps the words that it has reported while only they change: an autoscaler that tries
again and again alternates between two, and each change is a write.
"""


@dataclass(frozen=True, slots=True, order=True)
class Deadline:
    at: datetime
    began: datetime
    clock: str
    """The policy's field that sets it."""

    @property
    def limit(self) -> timedelta:
        return self.at - self.began


def deadline(
    gang: Gang,
    requests: Mapping[str, ProvisioningRequest],
    *,
    quota_since: datetime,
    policy: GangPolicy,
    now: datetime,
) -> Deadline:
    """The earliest of the deadlines that run."""
    return min(_running(gang, requests, min(quota_since, now), policy, now))


def _running(
    gang: Gang,
    requests: Mapping[str, ProvisioningRequest],
    quota_since: datetime,
    policy: GangPolicy,
    now: datetime,
) -> Iterator[Deadline]:
    asked = [requests[spec.shape] for spec in gang.request_specs if spec.shape in requests]
    if not asked:
        yield _at(quota_since, policy.queue_timeout, "queueTimeout")
    accepted: list[datetime] = []
    booked: list[datetime] = []
    is_any_provisioned = False
    for request in asked:
        provisioned = _past(request.status.since("Provisioned"), now)
        began = _past(request.status.since("Accepted"), now) or provisioned
        if began is None:
            created = _past(request.metadata.creation_timestamp, now) or quota_since
            yield _at(created, policy.queue_timeout, "queueTimeout")
        elif provisioned is None:
            yield _at(began, policy.provision_timeout, "provisionTimeout")
        accepted += [began] if began else []
        is_any_provisioned |= provisioned is not None
        booked += [moment] if (moment := booked_since(request, now)) else []
    if is_any_provisioned:
        yield _at(max(accepted), policy.provision_timeout, "provisionTimeout")
    if booked and not policy.holds:
        yield _at(min(booked), _usable(policy), "bookingWindow")


def booked_since(request: ProvisioningRequest, now: datetime) -> datetime | None:
    """When it was provisioned, if a clock of the autoscaler's runs since then. Placeholders stay."""
    return None if isinstance(request, PlaceholderSet) else _past(request.status.since("Provisioned"), now)


def booking_end(request: ProvisioningRequest, policy: GangPolicy, *, now: datetime) -> datetime | None:
    """When what is booked for it has to be used, kept or given up; None while nothing is."""
    booked = booked_since(request, now)
    return request.idle_until or booked + _usable(policy) if booked else None


def place_deadline(*, quota_since: datetime, policy: GangPolicy, now: datetime) -> Deadline:
    """Until when a gang that has requested nothing may hold its quota because a part of it fits on no
    existing node: as long as it could wait for that with its nodes booked.
    """
    return _at(min(quota_since, now), _usable(policy), "bookingWindow")


def settles_at(changed: datetime | None, *, now: datetime, since: datetime | None = None) -> datetime | None:
    """When what changed last at that moment is settled; None where it is now. A moment ahead of our own clock
    counts as settled: the wait would be as long as the clocks differ. `since`: when it began to change.
    """
    if changed is None:
        return None
    return _ahead(changed, max(SETTLED_AFTER, (changed - (since or changed)) / 10), now)


def words_last_until(reported: datetime | None, *, now: datetime) -> datetime | None:
    """Until when words that were reported then stay; None where they may change now. The clock as above."""
    return _ahead(reported, WORDS_LAST, now) if reported else None


def _ahead(began: datetime, length: timedelta, now: datetime) -> datetime | None:
    return began + length if began <= now < began + length else None


def stall_after(policy: GangPolicy) -> timedelta:
    """How long a gang keeps the nodes of placeholders that it cannot use while no further one comes: they are
    paid for. A sixth of the time in which all of them must come: five minutes of the default.
    """
    return policy.provision_timeout / 6


def stalls_at(
    requests: Iterable[ProvisioningRequest], policy: GangPolicy, *, now: datetime
) -> tuple[datetime, PlaceholderSet] | None:
    """When nothing came for so long, and for which set. While nodes boot, or are yet to be asked for, none
    has stalled. A gang without any node costs nothing: it waits, unless none is to come, and then it fails as
    a ProvisioningRequest does: gangs of lower priority wait for it. Once all have a node, one that is broken
    and stays open is one that has not come.
    """
    listed = tuple(requests)
    sets = [each for each in listed if isinstance(each, PlaceholderSet)]
    keeps = len(sets) < len(listed) or any(each.bound or each.ended for each in sets)
    are_bound = all(each.is_bound for each in sets)
    short = (
        each
        for each in sets
        if (each.standing + len(each.lost) if are_bound else each.bound) < each.count
        and not (each.lacks_pods(now) or each.waits_for == BOOTING)
    )
    moments = (
        (_past(each.waits_since, now) or now, each) for each in short if keeps or each.waits_for in NONE_COMES
    )
    first = min(moments, key=lambda found: found[0], default=None)
    return (first[0] + stall_after(policy), first[1]) if first else None


def ready_deadline(
    requests: Iterable[ProvisioningRequest], *, since: datetime, policy: GangPolicy, now: datetime
) -> Deadline:
    """Until when other checks may keep a gang waiting that is Ready `since` then: the booking's end, and
    never less than its margin, or Kueue would be overtaken. Kept nodes are kept no more once it is Ready:
    from then on the pods have a booking's time.
    """
    since = min(since, now)
    if policy.holds:
        return _at(since, _usable(policy), "bookingWindow")
    ends = (booking_end(request, policy, now=now) for request in requests)
    first = min((end for end in ends if end), default=since + _usable(policy))
    window = _at(first - _usable(policy), _usable(policy), "bookingWindow")
    return max(window, _at(since, policy.booking_margin, "bookingMargin"))


def _usable(policy: GangPolicy) -> timedelta:
    """What a gang may use of a booking."""
    return policy.booking_window - policy.booking_margin


def _past(moment: datetime | None, now: datetime) -> datetime | None:
    return min(moment, now) if moment else None


def _at(began: datetime, limit: timedelta, clock: str) -> Deadline:
    return Deadline(began + limit, began, clock)
