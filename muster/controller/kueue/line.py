"""The line of split gangs, kept up with the caches and with what is being written.

A gang is computed anew only when its Workload, its requests or what its check follows has changed, and only
the gangs whose turn has come are reconciled. What a decision requests counts from the decision on: between it
and its writes the caches do not show it. All else in memory is an index of the caches.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Final

import structlog

from muster.controller.gangs.actions import CreateRequest
from muster.controller.gangs.indexes import BY_POOL
from muster.controller.gangs.objects import ProvisioningRequest
from muster.controller.gangs.turn_order import Line, TurnPosition
from muster.controller.kube.resource import Key
from muster.controller.kueue.actions import Decision
from muster.controller.kueue.checks import Checks
from muster.controller.kueue.claim_cache import is_whole
from muster.controller.kueue.indexes import workload_of
from muster.controller.kueue.objects import ResourceFlavor, Workload
from muster.controller.kueue.slices import is_elastic
from muster.controller.kueue.snapshot import WorkloadSnapshot
from muster.controller.runtime.informer import Informer
from muster.model.gangpolicy import GangPolicy

_NOTHING: Final[frozenset[str]] = frozenset()


class SplitGangs:
    """`base_snapshot`: a Workload, a check and a moment to what is known of it alone. `enqueue` reconciles a
    gang whose turn has come.
    """

    def __init__(
        self,
        workloads: Informer[Workload],
        requests: Informer[ProvisioningRequest],
        flavors: Informer[ResourceFlavor],
        *,
        checks: Checks,
        base_snapshot: Callable[[Workload, str, datetime], WorkloadSnapshot],
    ) -> None:
        self._workloads, self._flavors, self._checks = workloads, flavors, checks
        self._base_snapshot = base_snapshot
        self._line = Line()
        self._positions: dict[Key, tuple[TurnPosition, ...]] = {}
        self._keys: dict[str, Key] = {}
        self._changed: dict[Key, None] = {}
        self._flavor_versions: tuple[str, ...] = ()
        self._policies: dict[str, GangPolicy | None] = {}
        self._being_asked: dict[str, frozenset[str]] = {}
        """The pools of requests that are being written, by uid."""
        self._writing = set[str]()
        """The Workloads for which a request is being written, of split gangs and others."""
        self._failed = set[str]()
        """Gangs whose last write failed: they delay no other until they try again."""
        self.enqueue: Callable[[Key], None] = lambda _: None
        workloads.store.listen(self._workload_changed)
        requests.store.listen(self._request_changed)

    def has_turn(self, snapshot: WorkloadSnapshot) -> tuple[bool, bool]:
        """Whether it must wait for its turn, and whether it must give way."""
        gang = None if snapshot.is_provisioned else snapshot.turn_position()
        if gang is None:
            return False, False
        return self._line.must_wait(gang), self._line.must_give_way(gang)

    def reconciling(self, key: Key, *, now: datetime) -> None:
        """Take in what has changed before this gang is decided."""
        if (workload := self._workloads.get(key)) and is_elastic(workload) and may_be_split(workload):
            self._changed[key] = None  # The end of its pause is no event.
        for position in self._positions.get(key, ()):
            if position.uid in self._failed:
                self._failed.discard(position.uid)
                self._changed[key] = None
        self._update(key, now)

    @contextmanager
    def asking(self, snapshot: WorkloadSnapshot, decision: Decision) -> Iterator[None]:
        """While the requests of this decision are written, the gang counts as having them."""
        asked = frozenset(
            action.spec.pool for action in decision.actions if isinstance(action, CreateRequest)
        )
        if not asked:
            yield
            return
        uid = snapshot.workload.metadata.uid
        self._writing.add(uid)
        try:
            with self._asking_in_turn(snapshot, asked):
                yield
        finally:
            self._writing.discard(uid)

    def is_asking(self, uid: str) -> bool:
        return uid in self._writing

    @contextmanager
    def _asking_in_turn(self, snapshot: WorkloadSnapshot, asked: frozenset[str]) -> Iterator[None]:
        gang = snapshot.turn_position()
        if gang is None:
            yield
            return
        key, self._being_asked[gang.uid] = snapshot.workload.key, asked
        self._changed[key] = None
        self._update(key, snapshot.now)
        try:
            yield
        except BaseException:
            self._failed.add(gang.uid)
            raise
        finally:
            del self._being_asked[gang.uid]
            self._changed[key] = None
            self._update(key, snapshot.now)
            self._failed &= self._keys.keys()

    def _update(self, own: Key, now: datetime) -> None:
        """Reconcile those whose turn has come by what has changed. `own`: is reconciled anyway."""
        self._notice_policies()
        changed = list[TurnPosition]()
        for key in list(self._changed):
            changed += self._recomputed(key, now)
        self._enqueue_affected(changed, own)

    def _enqueue_affected(self, changed: Sequence[TurnPosition], own: Key) -> None:
        for position in changed:
            for other in self._line.affected_by(position):
                if (key := self._keys[other.uid]) != own:
                    self.enqueue(key)

    def _recomputed(self, key: Key, now: datetime) -> list[TurnPosition]:
        """What has changed: positions as they were, and as they are. A gang whose position cannot be computed
        has none: its own reconcile reports why.
        """
        workload, after = self._workloads.get(key), tuple[TurnPosition, ...]()
        self._changed.pop(key, None)
        try:
            after = tuple(self._positions_of(workload, now)) if workload else ()
        except Exception:
            structlog.get_logger("gangs").exception("no turn", key=str(key))
        return self._replaced(key, after)

    def _replaced(self, key: Key, after: tuple[TurnPosition, ...]) -> list[TurnPosition]:
        before = self._positions.pop(key, ())
        if after:
            self._positions[key] = after
        gone = [position for position in before if position not in after]
        new = [position for position in after if position not in before]
        for position in gone:
            self._line.remove(position.uid)
            del self._keys[position.uid]
        for position in new:
            self._line.put(position)
            self._keys[position.uid] = key
        self._failed -= {position.uid for position in gone} - {position.uid for position in new}
        return gone + new

    def _positions_of(self, workload: Workload, now: datetime) -> Iterator[TurnPosition]:
        for check_state in workload.status.admission_checks:
            name = check_state.name
            if not may_be_split(workload):
                continue
            self._policies.setdefault(name, self._checks.policy(name))
            if not self._checks.is_ours(name):
                continue
            found = turn_position_of(self._base_snapshot(workload, name, now))
            if found is not None:
                yield self._as_written(found)

    def _as_written(self, gang: TurnPosition) -> TurnPosition:
        if gang.uid in self._failed:
            return replace(gang, next_pool="", unaccepted=_NOTHING)
        return replace(gang, asked=gang.asked | self._being_asked.get(gang.uid, _NOTHING))

    def _workload_changed(self, before: Workload | None, after: Workload | None) -> None:
        for each in (before, after):
            if each is not None and may_be_split(each):
                self._changed[each.key] = None
        if before is not None and after is None:
            # No decision about it follows that would take this in.
            self._changed.pop(before.key, None)
            self._enqueue_affected(self._replaced(before.key, ()), before.key)

    def _request_changed(self, before: ProvisioningRequest | None, after: ProvisioningRequest | None) -> None:
        for each in (before, after):
            for key in workload_of(each) if each is not None else ():
                self._workload_changed(None, self._workloads.get(key))

    def _notice_policies(self) -> None:
        """A policy or a flavor concerns all of them; it changes when a person changes it."""
        versions = tuple(flavor.metadata.resource_version for flavor in self._flavors.store)
        policies = {name: self._checks.policy(name) for name in self._policies}
        if (versions, policies) == (self._flavor_versions, self._policies):
            return
        self._flavor_versions, self._policies = versions, policies
        for pool in self._workloads.store.index_values(BY_POOL):
            for workload in self._workloads.store.by_index(BY_POOL, pool):
                self._workload_changed(None, workload)


def may_be_split(workload: Workload) -> bool:
    """Each request is for a PodSet of its own at least, and most gangs have one, or run."""
    status = workload.status
    is_gathering = status.holds("QuotaReserved") and not status.holds("Admitted")
    return is_gathering and status.admission is not None and len(status.admission.pod_set_assignments) > 1


def turn_position_of(snapshot: WorkloadSnapshot) -> TurnPosition | None:
    """None where it has none, or cannot be read."""
    try:
        return snapshot.turn_position() if snapshot.is_provisioning and not is_whole(snapshot) else None
    except ValueError:
        return None
