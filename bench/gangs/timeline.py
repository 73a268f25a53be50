"""What became of each gang, and when: read from the calls that wrote it.

Decides which write means what, for Kueue's own check and for ours alike. The time of an event is the moment
at which the API server answered the write that made it true.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from bench.gangs.audit import Call
from controller.admission.templates import OWNING_WORKLOAD

_Place = tuple[str, str]
Gang = _Place
"""Namespace and name of the Workload."""


class Moment(StrEnum):
    CREATED = "created"
    RESERVED = "reserved"
    LOST = "lost"
    REQUESTED = "requested"
    PROVISIONED = "provisioned"
    READY = "ready"
    ADMITTED = "admitted"
    FINISHED = "finished"


_CONDITIONS: Final = {
    ("QuotaReserved", "True"): Moment.RESERVED,
    ("QuotaReserved", "False"): Moment.LOST,
    ("Admitted", "True"): Moment.ADMITTED,
    ("Finished", "True"): Moment.FINISHED,
}
_OPPOSITE: Final = {Moment.RESERVED: Moment.LOST, Moment.LOST: Moment.RESERVED}


@dataclass(slots=True)
class Timeline:
    """One gang's moments in order; each only when it became true, not when it was repeated."""

    moments: list[tuple[datetime, Moment]] = field(default_factory=list)

    def first(self, moment: Moment) -> datetime | None:
        return next((at for at, each in self.moments if each is moment), None)

    def between(self, begin: Moment, end: Moment) -> float | None:
        """Seconds from the first `begin` to the first `end`; None when one of them never came."""
        start, stop = self.first(begin), self.first(end)
        return None if start is None or stop is None else (stop - start).total_seconds()

    def holding(self, until: datetime) -> Iterator[tuple[datetime, datetime]]:
        """The spans in which it held quota: from each reservation to its loss, the end, or `until`."""
        since: datetime | None = None
        for at, moment in self.moments:
            if moment is Moment.RESERVED:
                since = at
            elif moment in (Moment.LOST, Moment.FINISHED) and since is not None:
                yield since, at
                since = None
        if since is not None:
            yield since, until

    def note(self, at: datetime, moment: Moment) -> None:
        undone = _OPPOSITE.get(moment)
        known = [each for _, each in self.moments if each in (moment, undone)]
        is_new = known[-1:] != [moment] and not (moment is Moment.LOST and not known)
        if is_new:
            self.moments.append((at, moment))


def timelines(calls: Iterable[Call]) -> dict[Gang, Timeline]:
    """Every gang that was created, in the order of creation. Of the calls nothing is kept but moments."""
    askers: dict[_Place, Gang] = {}
    told: list[tuple[datetime, _Place, Moment]] = []
    for call in calls:
        if call.is_done and call.is_write:
            told += ((call.at, place, moment) for place, moment in _moments(call, askers))
    found: dict[Gang, Timeline] = {}
    for at, place, moment in sorted(told, key=lambda each: each[0]):
        gang = askers.get(place) if moment is Moment.PROVISIONED else place
        if moment is Moment.CREATED:
            found.setdefault(place, Timeline())
        if gang in found:
            found[gang].note(at, moment)
    return found


def _moments(call: Call, askers: dict[_Place, Gang]) -> Iterator[tuple[_Place, Moment]]:
    """Of the Workload, but for PROVISIONED: of the request, whose asker may be logged after it."""
    place = (call.namespace, call.name)
    match call.resource, call.verb:
        case "workloads", "create":
            yield place, Moment.CREATED
        case "workloads/status", _:
            yield from ((place, moment) for moment in _of_status(call.body.get("status") or {}))
        case "provisioningrequests", "create":
            if name := asker(call.body.get("metadata") or {}):
                askers[place] = call.namespace, name
                yield askers[place], Moment.REQUESTED
        case "provisioningrequests/status", _:
            if _is_provisioned(call.body.get("status") or {}):
                yield place, Moment.PROVISIONED


def _of_status(status: Mapping[str, Any]) -> Iterator[Moment]:
    checks = status.get("admissionChecks") or ()
    if checks and all(each.get("state") == "Ready" for each in checks):
        yield Moment.READY
    for each in status.get("conditions") or ():
        moment = _CONDITIONS.get((each.get("type"), each.get("status")))
        if moment is not None:
            yield moment


def _is_provisioned(status: Mapping[str, Any]) -> bool:
    conditions = status.get("conditions") or ()
    return any((each.get("type"), each.get("status")) == ("Provisioned", "True") for each in conditions)


def asker(meta: Mapping[str, Any]) -> str | None:
    """The Workload that a request was made for, by its metadata. Kueue's own check owns it by the Workload;
    ours must not, and says it in an annotation.
    """
    owners = [each["name"] for each in meta.get("ownerReferences") or () if each.get("kind") == "Workload"]
    return (meta.get("annotations") or {}).get(OWNING_WORKLOAD) or next(iter(owners), None)
