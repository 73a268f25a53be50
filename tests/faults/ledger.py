"""The store at one revision, and what only its history tells: which reservation of quota is a Workload's
present one, which one each request was made in, and since when something lies there without a right to it.

No label of ours is asked for that but the uid of the Workload that a thing was made for.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from muster.model import names
from tests.faults import history, reservation
from tests.faults.gangs import entry, holds
from tests.faults.history import Change

Json = dict[str, Any]

_MADE: Final = ("ProvisioningRequest", "PodTemplate")


@dataclass(frozen=True, slots=True)
class Epoch:
    """One reservation of a Workload: the second in which it got its quota, and how often it had been evicted.

    Two within one second and without an eviction between them are one: nothing in the API tells them apart.
    """

    since: str
    evictions: int


@dataclass(slots=True)
class Ledger:
    """Is told every change, in order."""

    objects: dict[str, dict[str, Json]] = field(default_factory=lambda: {kind: {} for kind in history.KINDS})
    epochs: dict[str, Epoch] = field(default_factory=dict)
    """uid of a Workload -> its present reservation, or its last one."""
    began: dict[str, int] = field(default_factory=dict)
    """uid of a Workload -> the revision at which it got its quota."""
    said: dict[str, int] = field(default_factory=dict)
    """uid of a Workload -> the revision at which its check last said something else."""
    due: dict[str, int] = field(default_factory=dict)
    """name of a request or template -> the revision since which nobody has a right to it."""
    _made_in: dict[str, Epoch | None] = field(default_factory=dict)
    _evictions: Counter[str] = field(default_factory=Counter)

    def take(self, change: Change) -> None:
        if change.after is None:
            self.objects[change.kind].pop(change.name, None)
        else:
            self.objects[change.kind][change.name] = change.after
        if change.kind == "Workload" and change.after is not None:
            self._book(change, change.before, change.after)
        if change.kind in _MADE and change.after is not None:
            self._made_in.setdefault(change.name, self.epochs.get(owner(change.after)))
        if change.kind in _MADE and change.after is None:
            self._made_in.pop(change.name, None)
        if change.kind in ("Workload", *_MADE):
            self._settle(change.revision)

    def of(self, kind: str) -> Iterable[Json]:
        return self.objects[kind].values()

    def live(self, *kinds: str) -> Iterator[tuple[str, Json]]:
        """Name and object of those that are not being deleted."""
        for kind in kinds:
            for name, item in self.objects[kind].items():
                if "deletionTimestamp" not in item["metadata"]:
                    yield name, item

    def epoch_of(self, name: str) -> Epoch | None:
        """The reservation that the request or template of this name was made in; None for one of nobody."""
        return self._made_in.get(name)

    def is_current(self, name: str, workload: Json) -> bool:
        """It was made in the Workload's present reservation."""
        made_in = self._made_in.get(name)
        return made_in is not None and made_in == self.epochs.get(workload["metadata"]["uid"])

    def _book(self, change: Change, before: Json | None, after: Json) -> None:
        uid = after["metadata"]["uid"]
        if holds(after, "Evicted") and not holds(before, "Evicted"):
            self._evictions[uid] += 1
        if holds(after, "QuotaReserved"):
            epoch = Epoch(reservation.since(after), self._evictions[uid])
            is_new = not holds(before, "QuotaReserved") or reservation.since(before or {}) != epoch.since
            if is_new:
                self.epochs[uid], self.began[uid] = epoch, change.revision
        if entry(before).get("message", "") != entry(after).get("message", ""):
            self.said[uid] = change.revision

    def _settle(self, revision: int) -> None:
        """Whose right has gone is due from now on, and who is gone or has a right again no more."""
        workloads = {each["metadata"]["uid"]: each for each in self.of("Workload")}
        due = {}
        for name, item in self.live(*_MADE):
            workload = workloads.get(owner(item))
            if workload is None or not reservation.may_hold(workload) or not self.is_current(name, workload):
                due[name] = self.due.get(name, revision)
        self.due = due


def owner(item: Json) -> str:
    """The uid of the Workload that it was made for."""
    return str((item["metadata"].get("labels") or {}).get(names.WORKLOAD_UID_LABEL, ""))
