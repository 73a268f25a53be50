"""Builds the snapshot of one Workload from the caches.

A reconcile costs what its gang costs, not what the cluster costs: nodes, pods and other gangs are read only
when the decision can depend on them. Reads caches, calls nothing, decides nothing.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import chain
from typing import Final

from muster.controller.gangs.capacity_claims import PodClaim, pins_of
from muster.controller.gangs.demand import Demand
from muster.controller.gangs.identity import template_name
from muster.controller.gangs.indexes import (
    BY_ENDING,
    BY_HELD,
    BY_LEASE,
    BY_NODE,
    BY_OWNER,
    BY_POOL,
    BY_REQUEST,
    lease_of,
    request_of,
)
from muster.controller.gangs.missing import is_settled
from muster.controller.gangs.objects import (
    Belonging,
    Node,
    Pod,
    PodTemplate,
    ProvisioningRequest,
)
from muster.controller.gangs.outages import BY_SILENT_ZONE, BY_ZONE, nodes_in_outage
from muster.controller.gangs.owner import Owners
from muster.controller.gangs.progress import in_the_way, recheck_at
from muster.controller.gangs.retry import RETRY_AT
from muster.controller.gangs.split import RequestSpec
from muster.controller.gangs.surroundings import Surroundings
from muster.controller.gangs.templates import POOL
from muster.controller.gangs.usage import NodeUsage, less
from muster.controller.gangs.vacated_leases import (
    Left,
    LeftLeases,
    TakenLease,
    VacatedLease,
    can_be_taken,
    lease_had,
    taken_leases,
    uses_device,
)
from muster.controller.gangs.verify import is_usable
from muster.controller.gangs.view import GangView
from muster.controller.kube.resource import Key
from muster.controller.kueue import identity
from muster.controller.kueue.actions import State
from muster.controller.kueue.checks import Checks
from muster.controller.kueue.contention import CompetingGangs
from muster.controller.kueue.identity import WORKLOADS
from muster.controller.kueue.indexes import BY_CLUSTER, BY_REPLACED
from muster.controller.kueue.known_snapshots import KnownSnapshots
from muster.controller.kueue.line import SplitGangs, is_gathering
from muster.controller.kueue.objects import ClusterQueue, ResourceFlavor, Workload
from muster.controller.kueue.slices import (
    base,
    cluster_of,
    earlier_slices,
    is_elastic,
    is_live,
    is_stranded,
    is_used,
    lets_go,
)
from muster.controller.kueue.snapshot import EarlierSlice, WorkloadSnapshot, claims_of
from muster.controller.runtime.clock import utc_now
from muster.controller.runtime.informer import Informer
from muster.model.names import (
    AVOID_ANNOTATION,
    GKE_LEASE_DETAIL,
    GKE_LEASE_LABEL,
    GROUP,
    POOL_LABEL,
)

_OURS: Final = f"{GROUP}/"
_ASKS_WITHIN: Final = timedelta(minutes=1)


@dataclass(slots=True, kw_only=True, eq=False)
class View(GangView[Workload]):
    """The caches, queried in terms of gangs."""

    workloads: Informer[Workload]
    pods: Informer[Pod]
    flavors: Informer[ResourceFlavor]
    queues: Informer[ClusterQueue]
    checks: Checks
    clock: Callable[[], datetime] = utc_now
    known: KnownSnapshots = field(init=False)
    split_gangs: SplitGangs = field(init=False)
    competing_gangs: CompetingGangs = field(init=False)
    left_leases: LeftLeases = field(init=False, default_factory=LeftLeases)
    _knows_left: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        GangView.__post_init__(self)
        self.usage = NodeUsage(self.pods)
        self.known = KnownSnapshots(
            self._base_snapshot,
            workloads=self.workloads,
            made=(self.requests, self.templates),
            placeholders=self.placeholders,
            nodes=self.nodes,
            others=(self.flavors, self.queues),
            words=self.words,
            checks=self.checks,
        )
        self.split_gangs = SplitGangs(
            *(self.workloads, self.requests, self.flavors),
            templates=self.templates,
            placeholders=self.placeholders,
            checks=self.checks,
            base_snapshot=self.known.of,
        )
        self.competing_gangs = CompetingGangs(
            workloads=self.workloads,
            requests=self.requests,
            templates=self.templates,
            pods=self.pods,
            checks=self.checks,
            known=self.known,
            is_asking=self.split_gangs.is_asking,
        )
        for cache in (self.requests, self.templates):
            cache.store.listen(self._item_changed)
        self.workloads.store.listen(self._quota_changed)
        self.nodes.store.listen(self._node_changed)
        self.pods.store.listen(self._pod_changed)

    @property
    def owners(self) -> Owners:
        return WORKLOADS

    @property
    def gangs(self) -> Informer[Workload]:
        return self.workloads

    def snapshot(self, workload: Workload, check: str, *, now: datetime) -> WorkloadSnapshot:
        """Everything that a decision about this Workload and this check depends on."""
        self.split_gangs.reconciling(workload.key, now=now)
        # One of a gang that runs is needed once: it is looked at when something of it changes.
        build = self.known.of if is_gathering(workload) else self._base_snapshot
        snapshot = build(workload, check, now)
        try:
            return snapshot.with_surroundings(self._surroundings(snapshot))
        except ValueError:
            return snapshot  # A bad quantity: the decision meets it too, and reports it.

    def _surroundings(self, snapshot: WorkloadSnapshot) -> Surroundings:
        if snapshot.runs:
            return self._around_running(snapshot)
        if snapshot.is_admitted:
            return replace(snapshot.surroundings, own_pods=tuple(self._consumers(snapshot)))
        if not snapshot.is_provisioning:
            return snapshot.surroundings
        found = self._around_running(snapshot) if snapshot.is_scale_up else snapshot.surroundings
        found = replace(found, is_placing=self._is_placing(snapshot, found))
        ending = tuple(self._ending(snapshot))
        recheck = recheck_at(ending, since=snapshot.began, now=snapshot.now)
        found = replace(found, ending=ending, recheck_at=recheck, set_aside=self.set_aside(snapshot.gang))
        if snapshot.gang.takes_turns:
            must_wait, must_give_way = self.split_gangs.has_turn(snapshot)
            found = replace(found, must_wait=must_wait, must_give_way=must_give_way)
        if not snapshot.is_provisioned:
            return self._surveyed(snapshot, replace(found, vacated=self._vacated(snapshot)))
        lost = self._taken_by_others(snapshot)
        nodes = (each for each in self._nodes(snapshot) if lease_of(each) not in lost)
        named = {node.metadata.name: node for node in (*found.nodes, *nodes)}
        claims = tuple(self.competing_gangs.prior_claims(snapshot))
        own = (pod for item in snapshot.placeholders if (pod := self.pods.get(item.key)))
        used = less(self.usage.of(named), own)
        return replace(found, nodes=self.judged(named.values()), used=used, claims=claims)

    # Leases that gangs have left

    def _item_changed(self, before: Belonging | None, after: Belonging | None) -> None:
        if before is not None and after is None:
            self._note_end(before)

    def _quota_changed(self, before: Workload | None, after: Workload | None) -> None:
        """What is made for it is deleted a moment later, when the next gang may have the quota already."""
        if before is None or not holds_quota(before):
            return
        has_run, pins = before.status.holds("Admitted"), frozenset[str]()
        if after is not None and holds_quota(after):
            pins = _pins_given(after)  # Our answer may be taken back while its pods are still being stopped.
        else:
            for item in self.made_for(before.key):
                self._note_left_lease(item, has_run=has_run)
        if has_run and (unpinned := _pins_given(before) - pins):
            self.left_leases.stop_using(unpinned, at=self.clock())

    def _look_for_left_leases(self) -> None:
        """Once, those of gangs that lost their quota while no controller ran: their requests are there."""
        if self._knows_left:
            return
        for item in (*self.requests.store, *self.templates.store):
            owner = self.owner_of(item)
            if owner is None or not holds_quota(owner):
                self._note_end(item)
        self._knows_left = True

    def _note_end(self, item: Belonging) -> None:
        """Perhaps long after its gang has lost it: the cloud counts from then."""
        owner = self.owner_of(item)
        at, has_run = _end_of(owner, item) if owner else (None, False)
        self._note_left_lease(item, at=at, has_run=has_run)

    def _note_left_lease(self, item: Belonging, *, has_run: bool, at: datetime | None = None) -> None:
        left = lease_had(item, now=at or self.clock(), has_run=has_run)
        if left is not None and self.nodes.store.by_index(BY_LEASE, left.name):
            self.left_leases.leave(left, pool=item.metadata.annotations.get(POOL, ""))

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        lease = lease_of(before) if before is not None and after is None else ""
        if before and lease and not self.nodes.store.by_index(BY_LEASE, lease):
            self.left_leases.forget(lease, pool=before.metadata.labels.get(POOL_LABEL, ""))

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        """The cloud counts nodes as idle from when their pods have ended, which may be long after their gang
        has lost its quota: the first of them counts.
        """
        if before is None or not (after is None or after.status.has_ended) or not uses_device(before):
            return
        node = self.nodes.get(Key("", before.spec.node_name))
        if node and (lease := lease_of(node)):
            nodes = self.nodes.store.by_index(BY_LEASE, lease)
            if all(any(map(uses_device, self._pods_on([each]))) != (each.key == node.key) for each in nodes):
                self.left_leases.stop_using((lease,), at=self.clock())

    def _vacated(self, snapshot: WorkloadSnapshot) -> tuple[VacatedLease, ...]:
        """Nothing for an elastic job: its pods change what they claim with each growth. Nothing either while
        a gang of higher priority has yet to ask in the pool. Nor a lease with a broken node that is open: a
        smaller gang has no word on which of the nodes its pods go to.
        """
        if snapshot.is_elastic:
            return ()
        self._look_for_left_leases()
        wanted = (spec for spec in snapshot.gang.request_specs if spec.shape not in snapshot.current)
        pools = {spec.pool for spec in wanted if can_be_taken(spec)}
        return tuple(
            VacatedLease(
                name=left.name,
                pool=pool,
                left=left.at,
                ends=left.ends,
                nodes=self.judged(nodes),
                pods=tuple(self._pods_on(nodes)),
            )
            for pool in sorted(pools)
            for left in self.left_leases.of(pool)
            if (nodes := tuple(self.nodes.store.by_index(BY_LEASE, left.name)))
            and not any(map(self.signs.is_open, nodes))
            and not self._is_booked(left)
            and not self._is_outranked(snapshot.workload, pool)
        )

    def _pods_on(self, nodes: Iterable[Node]) -> Iterator[Pod]:
        return (pod for node in nodes for pod in self.pods.store.by_index(BY_NODE, node.metadata.name))

    def _is_booked(self, left: Left) -> bool:
        """By a gang that has it as a request or as a lease of its own, or whose pods are pinned to it: clouds
        delete the requests of gangs that run.
        """
        items: list[Belonging] = [
            *self.requests.store.by_index(BY_LEASE, left.name),
            *self.templates.store.by_index(BY_LEASE, left.name),
        ]
        # Made again under its name, it will have the same lease.
        again = self.requests.get(left.item.key)
        owners = (self.owner_of(item) for item in (*items, *((again,) if again else ())))
        if any(owner is not None and self._keeps(owner) for owner in owners):
            return True
        last = self.owner_of(left.item)
        return last is not None and self._keeps(last) and left.name in _pins_given(last)

    def _keeps(self, owner: Workload) -> bool:
        """Whether nodes of it are its own: a slice of a cluster that runs on is finished."""
        return holds_quota(owner) or self.is_used(owner)

    def _taken_by_others(self, snapshot: WorkloadSnapshot) -> frozenset[str]:
        """Leases that a gang before this one has taken, too: two leaders for a moment may both decide."""
        lost = set[str]()
        for request in snapshot.current.values():
            if not isinstance(request, TakenLease):
                continue
            lease = request.status.provisioning_class_details[GKE_LEASE_DETAIL]
            mine = snapshot.state != State.READY, *_age(request)
            for item in self.templates.store.by_index(BY_LEASE, lease):
                owner = self.owner_of(item)
                if owner is None or owner.key == snapshot.workload.key or not holds_quota(owner):
                    continue
                is_ready = any(each.state == State.READY for each in owner.status.admission_checks)
                if (not is_ready, *_age(item)) < mine:
                    lost.add(lease)
        return frozenset(lost)

    def _is_outranked(self, workload: Workload, pool: str) -> bool:
        return any(
            other.spec.priority > workload.spec.priority and self._is_about_to_ask(other)
            for other in self.workloads.store.by_index(BY_POOL, pool)
        )

    def _is_about_to_ask(self, workload: Workload) -> bool:
        """Whoever has had its quota for long and asked for nothing waits for nodes that are left, or for
        something else, as for a place of its head.
        """
        if any(self._belongings(workload.key)):
            return False
        now, since = self.clock(), workload.status.since("QuotaReserved")
        return since is None or now - since < _ASKS_WITHIN or self._waits_for_nodes(workload, now)

    def _waits_for_nodes(self, workload: Workload, now: datetime) -> bool:
        ours = (each.name for each in workload.status.admission_checks if self.checks.is_ours(each.name))
        known = [self.known.of(workload, name, now) for name in ours]
        try:
            return any(
                each.is_provisioning and not (each.is_elastic or each.is_resting or each.gang.placed_first)
                for each in known
            )
        except ValueError:
            return False

    def _is_placing(self, snapshot: WorkloadSnapshot, found: Surroundings) -> bool:
        if not (found.lacks_pods or found.is_unseen):
            return False
        placed = (spec for spec in snapshot.gang.request_specs if spec.flavor.by_placeholders)
        return any(self.nodes.store.by_index(BY_HELD, snapshot.held_as(spec)) for spec in placed)

    def _surveyed(self, snapshot: WorkloadSnapshot, found: Surroundings) -> Surroundings:
        """With the nodes for what is placed first, until the first request is made."""
        if snapshot.current or found.must_wait or not snapshot.gang.placed_first:
            return found
        pooled = self._pooled(snapshot.gang.placed_first)
        # Of a scale-up, the nodes that it runs on are there already.
        named = {node.metadata.name: node for node in (*found.nodes, *pooled)}
        claims = tuple(self.competing_gangs.claims_before_asking(snapshot))
        used = self.usage.of(named)
        return replace(found, is_surveyed=True, nodes=self.judged(named.values()), used=used, claims=claims)

    def _around_running(self, snapshot: WorkloadSnapshot) -> Surroundings:
        """Nothing for a gang whose pods all have a node, as most have.

        Nor for one whose pods have not been seen yet, for a while, unless it has nodes of its own: looking
        for room in shared pools for every gang that starts would cost what the cluster costs.
        """
        carried = snapshot.carried
        claims = [claim for each in carried.values() for claim in each]
        namespace = snapshot.workload.metadata.namespace
        consumed = dict.fromkeys(Key(namespace, claim.request) for claim in claims)
        own_pods = [pod for key in consumed for pod in self.pods.store.by_index(BY_REQUEST, key)]
        their_nodes = [node for pod in own_pods if (node := self.nodes.get(Key("", pod.spec.node_name)))]
        is_evicted = self.signs.evicts(their_nodes)
        if is_evicted:
            their_nodes = [*self.judged(their_nodes)]
        gang = snapshot.expected_gang
        if is_settled(gang, carried, nodes=their_nodes, pods=own_pods, ended=snapshot.ended):
            return snapshot.surroundings
        is_shared = not all(GKE_LEASE_LABEL in claim.node_selector for claim in claims)
        if is_shared and not own_pods and not snapshot.is_overdue:
            return replace(snapshot.surroundings, is_unseen=True)
        demands = [demand for spec in gang.request_specs for demand in spec.demands]
        # Its pods stay where they are until it queues again: room on other nodes is no help to them.
        others = (*self._leased(claims), *(self._pooled(demands) if is_shared else ()))
        found = (*(() if is_evicted else others), *their_nodes)
        nodes = tuple({node.metadata.name: node for node in found}.values())
        store = self.nodes.store
        return Surroundings(
            lacks_pods=True,
            nodes=nodes,
            own_pods=tuple(own_pods),
            used=self.usage.of(node.metadata.name for node in nodes),
            in_outage=nodes_in_outage(
                nodes, known=store.counts(BY_ZONE), silent=store.counts(BY_SILENT_ZONE)
            ),
        )

    def _consumers(self, snapshot: WorkloadSnapshot) -> Iterator[Pod]:
        """The pods that use what this attempt requested, whether or not the requests are still there."""
        namespace = snapshot.workload.metadata.namespace
        for spec in snapshot.gang.request_specs:
            key = Key(namespace, snapshot.request_name(spec))
            yield from self.pods.store.by_index(BY_REQUEST, key)

    def _leased(self, claims: Iterable[PodClaim]) -> Iterator[Node]:
        for claim in claims:
            for lease in claim.node_selector.values():
                yield from self.nodes.store.by_index(BY_LEASE, lease)

    def workloads_affected_by(self, before: Node | None, after: Node | None) -> Iterable[Key]:
        """The Workloads whose gangs lose something when this node goes or is no longer usable."""
        was, usable = (each is not None and is_usable(self.signs.judged(each)) for each in (before, after))
        is_told = before is after  # Of a sign that another object has by now.
        if before is None or usable or not (was or is_told):
            return ()
        pods = self.pods.store.by_index(BY_NODE, before.metadata.name)
        consumed = {key for pod in pods for key in request_of(pod)}
        made = [item for key in consumed if (item := self._belonging_of(key))]
        leased: list[Belonging] = []
        if lease := lease_of(before):
            leased += self.requests.store.by_index(BY_LEASE, lease)
            leased += self.templates.store.by_index(BY_LEASE, lease)
        return {key for item in (*made, *leased) for key in self.workloads_using(item)}

    def _belonging_of(self, request: Key) -> Belonging | None:
        """The request, or its first template: clouds delete requests after a week, and the gang runs on."""
        template = Key(request.namespace, template_name(request.name, 0))
        return self.requests.get(request) or self.templates.get(template)

    def workloads_using(self, item: Belonging) -> list[Key]:
        """The Workload that it was made for, and slices of an elastic gang that use it."""
        keys = WORKLOADS.keys_of(item)
        for made_for in [workload for key in keys if (workload := self.workloads.get(key))]:
            if made_for.status.holds("Finished"):
                keys += [each.key for each in self._slices(made_for, live=True)]
        return keys

    def slices_affected_by(self, before: Workload | None, after: Workload | None) -> Iterable[Key]:
        """The slice that waits until this one is finished, and those whose capacity it does not use any
        more.
        """
        some, keys = after or before, list[Key]()
        if before and is_live(before) and not (after and is_live(after)):
            keys += [each.key for each in self.workloads.store.by_index(BY_REPLACED, before.key)]
        if some and lets_go(before, after):
            over = (each for each in self._slices(some, live=False) if any(self._belongings(each.key)))
            keys += [each.key for each in over]
        return keys

    def _slices(self, workload: Workload, *, live: bool) -> list[Workload]:
        """Those of its cluster."""
        clusters = [(uid, live) for uid, _ in cluster_of(workload)]
        return [each for key in clusters for each in self.workloads.store.by_index(BY_CLUSTER, key)]

    def is_used(self, workload: Workload) -> bool:
        """Whether pods of this finished slice run under a later one."""
        return is_used(workload, self._slices(workload, live=True))

    def is_stranded(self, workload: Workload) -> bool:
        """Whether it waits for quota while pods of slices that were evicted may run on."""
        slices = (self._slices(workload, live=live) for live in (True, False))
        return is_stranded(workload, chain.from_iterable(slices))

    def slice_of(self, request: Key) -> str:
        """The name of the slice that the request was made for; empty where that is not known."""
        item = self._belonging_of(request)
        return next((key.name for key in WORKLOADS.keys_of(item)), "") if item else ""

    def checks_of(self, workload: Workload) -> tuple[str, ...]:
        """Our checks on this Workload, and those that it has left something of."""
        entries = {
            entry.name for entry in workload.status.admission_checks if self.checks.is_ours(entry.name)
        }
        entries |= {item.metadata.labels.get(identity.CHECK, "") for item in self.made_for(workload.key)}
        noted = not {RETRY_AT, AVOID_ANNOTATION}.isdisjoint(workload.metadata.annotations)
        if not entries and (noted or self.is_stranded(workload)):
            # Its queue has lost the check while it waited, or puts it on what has quota alone.
            entries = {""}
        return tuple(sorted(entries))

    def _base_snapshot(self, workload: Workload, check: str, now: datetime) -> WorkloadSnapshot:
        requests, templates = self._belongings(workload.key)
        kept = self.placeholders.store.by_index(BY_OWNER, workload.key)
        own = {identity.WORKLOAD_UID: workload.metadata.uid, identity.CHECK: check}.items()
        own_templates = tuple(item for item in templates if own <= item.metadata.labels.items())
        own_pods = tuple(item for item in kept if own <= item.metadata.labels.items())
        return WorkloadSnapshot(
            check=check,
            workload=workload,
            now=now,
            policy=self.checks.policy(check),
            flavors={flavor.metadata.name: flavor for flavor in self.flavors.store},
            queue_flavors=self._queue_flavors(workload),
            check_is_being_removed=self.checks.is_being_removed(),
            check_is_gone=self.checks.are_gone(),
            base=base(workload, self.workloads.get),
            earlier_slices=tuple(self._earlier_slices(workload, check)),
            is_stranded=self.is_stranded(workload),
            has_running_successor=workload.status.holds("Finished")
            and bool(requests or templates)
            and self.is_used(workload),
            requests=(
                *(item for item in requests if own <= item.metadata.labels.items()),
                *self.placeholder_sets(own_templates, own_pods),
                *taken_leases(own_templates),
            ),
            templates=own_templates,
            placeholders=own_pods,
        )

    def _earlier_slices(self, workload: Workload, check: str) -> Iterator[EarlierSlice]:
        for before in earlier_slices(workload, self.workloads.get):
            if claims := claims_of(before.check_state(check)):
                names = {claim.request for claim in claims.values()}
                requests, _ = self._belongings(before.key)
                used = tuple(request for request in requests if request.metadata.name in names)
                yield EarlierSlice(claims=claims, requests=used)

    def _queue_flavors(self, workload: Workload) -> tuple[tuple[str, ...], ...]:
        admission = workload.status.admission
        queue = self.queues.get(Key("", admission.cluster_queue)) if admission else None
        groups = queue.spec.resource_groups if queue else ()
        return tuple(tuple(flavor.name for flavor in group.flavors) for group in groups)

    def keys_concerned(self, workload: Workload) -> list[Key]:
        """What to reconcile when this Workload changes: itself, unless it only waits for quota, as most do
        where many wait. Other slices are reconciled by what changes (`slices_affected_by`).
        """
        return [workload.key] if self._is_concerned(workload) else []

    def _is_concerned(self, workload: Workload) -> bool:
        """It has a check, a note of ours, or something that was made for it or for another of its name; or
        nothing else stops its job.
        """
        notes = workload.metadata.annotations
        if workload.status.admission_checks or any(name.startswith(_OURS) for name in notes):
            return True
        return bool(self.made_for(workload.key)) or self.is_stranded(workload)

    def _belongings(self, key: Key) -> tuple[list[ProvisioningRequest], list[PodTemplate]]:
        return (
            self.requests.store.by_index(BY_OWNER, key),
            self.templates.store.by_index(BY_OWNER, key),
        )

    def _nodes(self, snapshot: WorkloadSnapshot) -> Iterable[Node]:
        """The nodes of the gang's leases, and of its pools where it has none of its own; all of them where
        no pool is named.
        """
        leased = (
            node
            for lease in sorted(leases_of(snapshot))
            for node in self.nodes.store.by_index(BY_LEASE, lease)
        )
        return {node.metadata.name: node for node in (*leased, *self._pooled(_unpinned(snapshot)))}.values()

    def _pooled(self, demands: Iterable[Demand]) -> Iterable[Node]:
        """The nodes of their pools; all of them where one names no pool."""
        pools = {demand.needs.node_selector.get(POOL_LABEL, "") for demand in demands}
        if "" in pools:
            return self.nodes.store
        return (node for pool in sorted(pools) for node in self.nodes.store.by_index(BY_POOL, pool))

    def _ending(self, snapshot: WorkloadSnapshot) -> Iterator[Pod]:
        pods = self.pods.store.by_index(BY_ENDING, BY_ENDING)
        return in_the_way(snapshot.gang, ((pod, self.nodes.get(Key("", pod.spec.node_name))) for pod in pods))


def _age(item: Belonging) -> tuple[float, str]:
    made = item.metadata.creation_timestamp
    return made.timestamp() if made else 0.0, item.metadata.uid


def holds_quota(workload: Workload) -> bool:
    return workload.status.holds("QuotaReserved") and not workload.status.holds("Finished")


def _end_of(owner: Workload, item: Belonging) -> tuple[datetime | None, bool]:
    """When its gang has lost this, where that is known, and whether its pods ran on it."""
    admitted, made = owner.status.condition("Admitted"), item.metadata.creation_timestamp
    stopped = admitted.last_transition_time if admitted and admitted.status == "False" else None
    if stopped and made and stopped >= made:
        return stopped, True
    # Pods of a slice that is finished may have run on under the next ones.
    is_unknown = holds_quota(owner) or is_elastic(owner)
    moments = () if is_unknown else map(owner.status.since, ("Finished", "Evicted"))
    return next(filter(None, moments), None), owner.status.holds("Admitted")


def _pins_given(workload: Workload) -> frozenset[str]:
    """The leases to which our answers pin its pods."""
    updates = (each for check in workload.status.admission_checks for each in check.pod_set_updates)
    return frozenset(lease for each in updates if (lease := each.node_selector.get(GKE_LEASE_LABEL)))


def leases_of(snapshot: WorkloadSnapshot) -> frozenset[str]:
    """The leases whose nodes are its own."""
    pins = (_pin(snapshot, spec) for spec in snapshot.gang.request_specs)
    return frozenset(pin for pin in pins if pin)


def has_only_leases(snapshot: WorkloadSnapshot) -> bool:
    """Whether no node but those of its own leases can concern it."""
    return not any(_unpinned(snapshot))


def _unpinned(snapshot: WorkloadSnapshot) -> Iterator[Demand]:
    """What may run on nodes that others use as well."""
    for spec in snapshot.gang.request_specs:
        if not spec.flavor.by_placeholders and not _pin(snapshot, spec):
            yield from spec.demands
    yield from snapshot.gang.present


def _pin(snapshot: WorkloadSnapshot, spec: RequestSpec) -> str:
    request = snapshot.current.get(spec.shape)
    return pins_of(spec, request).get(GKE_LEASE_LABEL, "") if request else ""
