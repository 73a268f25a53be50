"""The split gangs of Kueue's Workloads that take turns. Computes their positions, and which events change
them.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from muster.controller.gangs.actions import CreateRequest
from muster.controller.gangs.indexes import BY_POOL
from muster.controller.gangs.objects import Belonging, Placeholder, PodTemplate, ProvisioningRequest
from muster.controller.gangs.placeholder_sets import is_asked_by_pods
from muster.controller.gangs.turn_order import TurnIndex, TurnPosition
from muster.controller.gangs.vacated_leases import is_taken
from muster.controller.kube.resource import Key
from muster.controller.kueue.actions import Decision, State
from muster.controller.kueue.checks import Checks
from muster.controller.kueue.identity import WORKLOADS
from muster.controller.kueue.objects import ResourceFlavor, Workload
from muster.controller.kueue.slices import is_elastic
from muster.controller.kueue.snapshot import WorkloadSnapshot
from muster.controller.runtime.informer import Informer
from muster.model.names import MULTI_KUEUE_ORIGIN


def _pauses_within_quota(workload: Workload) -> bool:
    return is_elastic(workload) or MULTI_KUEUE_ORIGIN in workload.metadata.labels


class SplitGangs(TurnIndex):
    """`base_snapshot`: a Workload, a check and a moment to what is known of it alone."""

    def __init__(
        self,
        workloads: Informer[Workload],
        requests: Informer[ProvisioningRequest],
        flavors: Informer[ResourceFlavor],
        *,
        templates: Informer[PodTemplate],
        placeholders: Informer[Placeholder],
        checks: Checks,
        base_snapshot: Callable[[Workload, str, datetime], WorkloadSnapshot],
    ) -> None:
        super().__init__()
        self._workloads, self._checks = workloads, checks
        self._base_snapshot = base_snapshot
        self._writing = set[str]()
        """The Workloads for which a request is being written, of split gangs and others."""
        workloads.store.listen(self._workload_changed)
        requests.store.listen(self._made_changed)
        templates.store.listen(self._template_changed)
        placeholders.store.listen(self._made_changed)
        flavors.store.listen(lambda *_: self._all_changed())
        checks.listen(self._all_changed)
        self._all_changed()

    def has_turn(self, snapshot: WorkloadSnapshot) -> tuple[bool, frozenset[str]]:
        """Whether it must wait for its turn, and whether it must give way."""
        gang = None if snapshot.is_provisioned else snapshot.turn_position()
        if gang is None:
            return False, frozenset()
        return self.line.must_wait(gang), self.line.must_give_way(gang)

    def reconciling(self, key: Key, *, now: datetime) -> None:
        """Take in what has changed before this gang is decided."""
        workload = self._workloads.get(key)
        if workload is not None and _pauses_within_quota(workload) and self._may_take_turns(workload):
            self._changed[key] = None  # The end of its pause is no event.
        super().reconciling(key, now=now)

    @contextmanager
    def asking(self, snapshot: WorkloadSnapshot, decision: Decision) -> Iterator[None]:
        """While the requests of this decision are written, the gang counts as having them."""
        if not any(isinstance(action, CreateRequest) for action in decision.actions):
            yield
            return
        uid, key, position = snapshot.workload.metadata.uid, snapshot.workload.key, snapshot.turn_position()
        self._writing.add(uid)
        try:
            with self._asking(position, decision.actions, key=key, now=snapshot.now):
                yield
        finally:
            self._writing.discard(uid)

    def is_asking(self, uid: str) -> bool:
        return uid in self._writing

    def _positions_of(self, key: Key, now: datetime) -> Iterator[TurnPosition]:
        workload = self._workloads.get(key)
        if workload is None or not self._may_take_turns(workload):
            return
        for name in [entry.name for entry in workload.status.admission_checks]:
            if not self._checks.is_ours(name):
                continue
            found = turn_position_of(self._base_snapshot(workload, name, now))
            if found is not None:
                yield found

    def _workload_changed(self, before: Workload | None, after: Workload | None) -> None:
        for each in (before, after):
            # Its pool may have left placeholders since: then it takes no turns any more.
            if each is not None and (each.key in self._positions or self._may_take_turns(each)):
                self._changed[each.key] = None
        if before is not None and after is None:
            self._gone(before.key)

    def _may_take_turns(self, workload: Workload) -> bool:
        return may_be_split(workload) or (is_gathering(workload) and self._asks_by_pods(workload))

    def _asks_by_pods(self, workload: Workload) -> bool:
        """A part of it goes to a pool where gangs ask by placeholders."""
        admission = workload.status.admission
        assigned = admission.pod_set_assignments if admission else ()
        wanted = {name for each in assigned for name in each.flavors.values()}
        policies = (
            self._checks.policy(entry.name)
            for entry in workload.status.admission_checks
            if self._checks.is_ours(entry.name)
        )
        return any(
            flavor.by_placeholders and flavor.name in wanted
            for policy in policies
            if policy
            for flavor in policy.flavors
        )

    def _made_changed(self, before: Belonging | None, after: Belonging | None) -> None:
        for each in (before, after):
            for key in WORKLOADS.keys_of(each) if each is not None else ():
                self._workload_changed(None, self._workloads.get(key))

    def _template_changed(self, before: PodTemplate | None, after: PodTemplate | None) -> None:
        """A placeholder set begins and ends with its templates, and so does a lease that is taken."""
        some = after or before
        if some is not None and (is_asked_by_pods(some) or is_taken(some)):
            self._made_changed(before, after)

    def _all_changed(self) -> None:
        """A check, its policy or a flavor concerns all of them; they change when a person changes them."""
        for pool in self._workloads.store.index_values(BY_POOL):
            for workload in self._workloads.store.by_index(BY_POOL, pool):
                self._workload_changed(None, workload)


def may_be_split(workload: Workload) -> bool:
    """Each request is for a PodSet of its own at least, and most gangs have one, or run."""
    admission = workload.status.admission
    return is_gathering(workload) and admission is not None and len(admission.pod_set_assignments) > 1


def is_gathering(workload: Workload) -> bool:
    return workload.status.holds("QuotaReserved") and not workload.status.holds("Admitted")


def turn_position_of(snapshot: WorkloadSnapshot) -> TurnPosition | None:
    """None where it has none, or cannot be read."""
    if not snapshot.is_provisioning or snapshot.state == State.READY:
        return None
    try:
        return snapshot.turn_position()
    except ValueError:
        return None
