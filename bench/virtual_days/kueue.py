"""Kueue on virtual time: quota for each tenant's gangs, oldest first, and admission when a gang is Ready."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from bench.virtual_days.server import Change, Server, later
from muster.controller.kube.resource import Key
from muster.controller.kueue.objects import (
    WORKLOAD,
    CheckState,
    EvictionCount,
    SchedulingStats,
    Workload,
)
from tests.unit.admission.fleet import SPACE, Pieces
from tests.unit.admission.gang_world import CHECK, assignment, workload
from tests.unit.gangs.slow_api import moment

replace = msgspec.structs.replace

_STEP: Final = 0.2
"""Seconds until it acts on what has changed."""


@dataclass(slots=True)
class Gang:
    """A job of a tenant. `left`: seconds that it still has to run; it saves its work as it goes."""

    key: Key
    tenant: str
    pieces: Pieces
    left: float
    submitted: float
    waits_since: float = 0.0
    has_quota: bool = False

    @property
    def gpus(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for pool, count in self.pieces.values():
            if pool != "cpu":
                found[pool] = found.get(pool, 0) + count
        return found


@dataclass
class Kueue:
    """`start` and `stop` are the job's: its pods are made, and end."""

    server: Server
    gangs: dict[Key, Gang]
    start: Callable[[Gang], None]
    stop: Callable[[Gang], None]
    quota: dict[str, dict[str, int]] = field(default_factory=dict)
    _looks: set[Key] = field(default_factory=set)

    def submit(self, gang: Gang) -> None:
        self.gangs[gang.key] = gang
        made = workload(gang.key.name, gang.pieces)
        stamped = replace(made.metadata, namespace=SPACE, creation_timestamp=moment())
        self.server.put(WORKLOAD, replace(made, metadata=stamped))

    def changed(self, before: Workload | None, after: Workload | None) -> None:
        held = after or before
        if held is not None and held.key not in self._looks:
            self._looks.add(held.key)
            later(_STEP, self._look, held.key)

    def _look(self, key: Key) -> None:
        self._looks.discard(key)
        gang, held = self.gangs.get(key), self.server.workload(key)
        if gang is None or held is None or held.status.holds("Finished"):
            return
        status, is_active = held.status, held.spec.active
        entry = held.check_state(CHECK)
        if status.holds("QuotaReserved") and not is_active:
            self.evict(gang, "Deactivated")
        elif status.holds("QuotaReserved") and entry and entry.state == "Retry":
            self.evict(gang, "AdmissionCheck")
        elif status.holds("QuotaReserved"):
            if entry and entry.state == "Ready" and not status.holds("Admitted"):
                self.server.set_conditions(held, ("Admitted", "True", "Admitted"))
                self.start(gang)
        elif not is_active:
            if status.admission_checks:
                self.server.set_conditions(held, admission_checks=())
        elif status.condition("Requeued") and not status.holds("Requeued"):
            self.server.set_conditions(held, ("Requeued", "True", "Reactivated"))
        else:
            self.give_quota(gang.tenant)

    def give_quota(self, tenant: str) -> None:
        """To those that wait, the oldest first; a large one that does not fit lets smaller ones pass."""
        quota = dict(self.quota.get(tenant, {}))
        mine = sorted(
            (gang for gang in self.gangs.values() if gang.tenant == tenant), key=lambda gang: gang.submitted
        )
        for gang in mine:
            if gang.has_quota:
                for pool, count in gang.gpus.items():
                    quota[pool] = quota.get(pool, 0) - count
        for gang in mine:
            held = self.server.workload(gang.key)
            if gang.has_quota or held is None or not held.spec.active or held.status.holds("Finished"):
                continue
            if held.status.condition("Requeued") and not held.status.holds("Requeued"):
                continue
            if all(quota.get(pool, 0) >= count for pool, count in gang.gpus.items()):
                for pool, count in gang.gpus.items():
                    quota[pool] -= count
                self._reserve(gang, held)

    def _reserve(self, gang: Gang, held: Workload) -> None:
        gang.has_quota = True
        entry = held.check_state(CHECK) or CheckState(name=CHECK, last_transition_time=moment())
        self.server.set_conditions(
            held,
            ("QuotaReserved", "True", ""),
            ("Evicted", "False", ""),
            admission=assignment(gang.pieces),
            admission_checks=(entry,),
        )

    def evict(self, gang: Gang, reason: str) -> None:
        """Its pods end, its quota is free, our entry is reset."""
        held = self.server.workload(gang.key)
        if held is None:
            return
        self.stop(gang)
        changes: list[Change] = [("Evicted", "True", reason), ("QuotaReserved", "False", reason)]
        changes += [("Admitted", "False", reason)] if held.status.holds("Admitted") else []
        changes += [] if held.spec.active else [("Requeued", "False", reason)]
        entries: tuple[Any, ...] = tuple(
            replace(each, state="Pending", message="reset") for each in held.status.admission_checks
        )
        count = 1 + sum(each.count for each in (held.status.scheduling_stats or SchedulingStats()).evictions)
        stats = SchedulingStats(evictions=(EvictionCount(count=count),))
        self.server.set_conditions(
            held, *changes, admission=None, admission_checks=entries, scheduling_stats=stats
        )
        self.free(gang)

    def finish(self, gang: Gang) -> None:
        if (held := self.server.workload(gang.key)) is not None:
            self.server.set_conditions(held, ("Finished", "True", "Succeeded"))
        self.free(gang)

    def free(self, gang: Gang) -> None:
        if gang.has_quota:
            gang.has_quota = False
            later(_STEP, self.give_quota, gang.tenant)

    def delete(self, gang: Gang) -> None:
        """By its owner, or some time after its end."""
        self.stop(gang)
        del self.gangs[gang.key]
        self.server.remove(WORKLOAD, gang.key)
        self.free(gang)
