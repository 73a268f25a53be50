"""The history of each gang, read from the calls that wrote it.

Responsible for which write means which event, for Kueue's own check and for ours. The time of an event is
the time at which the API server answered the write.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from bench.gangs.audit import Call
from muster.controller.kueue.identity import OWNING_WORKLOAD

_Place = tuple[str, str]
Gang = _Place
"""Namespace and name of the Workload."""


class Moment(StrEnum):
    CREATED = "created"
    RESERVED = "reserved"
    LOST = "lost"
    REQUESTED = "requested"
    PROVISIONED = "provisioned"
    FAILED = "failed"
    READY = "ready"
    ADMITTED = "admitted"
    FINISHED = "finished"


_CONDITIONS: Final = {
    ("QuotaReserved", "True"): Moment.RESERVED,
    ("QuotaReserved", "False"): Moment.LOST,
    ("Admitted", "True"): Moment.ADMITTED,
    ("Finished", "True"): Moment.FINISHED,
}
_ANSWERS: Final = {
    ("Provisioned", "True"): Moment.PROVISIONED,
    ("Failed", "True"): Moment.FAILED,
}
_OF_REQUESTS: Final = (Moment.REQUESTED, *_ANSWERS.values())
_QUOTA: Final = (Moment.RESERVED, Moment.LOST)
_ENDS: Final = (Moment.LOST, Moment.FINISHED)
_ONCE: Final = (Moment.CREATED, Moment.FINISHED)
_At = tuple[datetime, Moment]


@dataclass(slots=True)
class Timeline:
    """One gang's moments in order; each only when it became true, not when it was repeated. A loss of the
    quota undoes the moments after it: a gang that has quota again can request and become ready again.
    """

    moments: list[_At] = field(default_factory=list)

    def first(self, moment: Moment) -> datetime | None:
        return next((at for at, each in self.moments if each is moment), None)

    def between(self, begin: Moment, end: Moment) -> float | None:
        """Seconds from the first `begin` to the first `end`; None when one of them never came."""
        start, stop = self.first(begin), self.first(end)
        return None if start is None or stop is None else (stop - start).total_seconds()

    def within(self, begin: Moment, end: Moment) -> Iterator[float]:
        """Seconds from `begin` to `end`, one for each reservation in which both came, in this order. What
        was begun in one reservation never ends in another.
        """
        for reservation in self._reservations():
            start = next((at for at, each in reservation if each is begin), None)
            stop = next((at for at, each in reservation if each is end and start and at >= start), None)
            if start is not None and stop is not None:
                yield (stop - start).total_seconds()

    def holding(self, until: datetime) -> Iterator[tuple[datetime, datetime]]:
        """The spans in which it held quota: from each reservation to its loss, the end, or `until`."""
        for reservation in self._reservations():
            begin, _ = reservation[0]
            end, last = reservation[-1]
            yield begin, end if last in _ENDS else until

    def note(self, at: datetime, moment: Moment) -> None:
        if moment in _QUOTA:
            known = [each for _, each in self.moments if each in _QUOTA]
            is_new = known[-1:] != [moment] and (moment is Moment.RESERVED or bool(known))
        else:
            since = self.moments if moment in _ONCE else self._since_quota()
            is_new = all(each is not moment for _, each in since)
        if is_new:
            self.moments.append((at, moment))

    def _since_quota(self) -> Sequence[_At]:
        """What came after the quota was won or lost last."""
        places = (place for place, (_, each) in enumerate(self.moments) if each in _QUOTA)
        return self.moments[max(places, default=0) :]

    def _reservations(self) -> Iterator[Sequence[_At]]:
        """The moments of each, from RESERVED to its loss or its end, or to the last that is known."""
        since: int | None = None
        for place, (_, moment) in enumerate(self.moments):
            if moment is Moment.RESERVED:
                since = place
            elif moment in _ENDS and since is not None:
                yield self.moments[since : place + 1]
                since = None
        if since is not None:
            yield self.moments[since:]


def timelines(calls: Iterable[Call]) -> dict[Gang, Timeline]:
    """Every gang that was created, in the order of creation. Of the calls nothing is kept but moments."""
    askers: dict[_Place, Gang] = {}
    moments: list[tuple[datetime, _Place, Moment]] = []
    for call in calls:
        if call.is_done and call.is_write:
            moments += ((call.at, place, moment) for place, moment in _moments(call, askers))
    found: dict[Gang, Timeline] = {}
    asked: dict[Gang, set[_Place]] = {}
    stale: set[_Place] = set()
    for at, place, moment in sorted(moments, key=lambda each: each[0]):
        gang = askers.get(place) if moment in _OF_REQUESTS else place
        if gang is None or (place in stale and moment in _ANSWERS.values()):
            continue  # The answer to a request of an earlier reservation is not about this one.
        if moment is Moment.CREATED:
            found.setdefault(gang, Timeline())
        elif moment is Moment.LOST:
            stale |= asked.pop(gang, set())
        elif moment is Moment.REQUESTED:
            asked.setdefault(gang, set()).add(place)
            stale.discard(place)
        if gang in found:
            found[gang].note(at, moment)
    return found


def _moments(call: Call, askers: dict[_Place, Gang]) -> Iterator[tuple[_Place, Moment]]:
    """Of the Workload, but for what concerns a request: that, whose asker may be logged after the answer."""
    place = (call.namespace, call.name)
    match call.resource, call.verb:
        case "workloads", "create":
            yield place, Moment.CREATED
        case "workloads/status", _:
            yield from ((place, moment) for moment in _of_status(call.body.get("status") or {}))
        case "provisioningrequests", "create":
            if name := asker(call.body.get("metadata") or {}):
                askers[place] = call.namespace, name
                yield place, Moment.REQUESTED
        case "provisioningrequests/status", _:
            yield from ((place, moment) for moment in _meant(call.body.get("status") or {}, _ANSWERS))


def _of_status(status: Mapping[str, Any]) -> Iterator[Moment]:
    checks = status.get("admissionChecks") or ()
    if checks and all(each.get("state") == "Ready" for each in checks):
        yield Moment.READY
    yield from _meant(status, _CONDITIONS)


def _meant(status: Mapping[str, Any], by: Mapping[tuple[str, str], Moment]) -> Iterator[Moment]:
    for each in status.get("conditions") or ():
        moment = by.get((each.get("type", ""), each.get("status", "")))
        if moment is not None:
            yield moment


def asker(meta: Mapping[str, Any]) -> str | None:
    """The Workload that a request was made for, by its metadata. Kueue's own check owns it by the Workload;
    ours must not, and has an annotation instead.
    """
    owners = [each["name"] for each in meta.get("ownerReferences") or () if each.get("kind") == "Workload"]
    return (meta.get("annotations") or {}).get(OWNING_WORKLOAD) or next(iter(owners), None)
