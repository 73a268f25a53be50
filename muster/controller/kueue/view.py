"""What is known about one Workload, gathered from the caches.

Decides which objects bear on a decision, so that a reconcile costs what its gang costs and not what the
cluster costs: nodes, pods and other gangs are looked at only when the decision can depend on them. Reads
caches, calls nothing, decides nothing.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime

from muster.controller.gangs.capacity_claims import Claim, pins_of
from muster.controller.gangs.demand import Demand
from muster.controller.gangs.identity import template_name
from muster.controller.gangs.indexes import BY_LEASE, BY_NODE, BY_POOL, BY_REQUEST, lease_of, request_of
from muster.controller.gangs.missing import is_settled
from muster.controller.gangs.objects import (
    Belonging,
    Node,
    Placeholder,
    Pod,
    PodTemplate,
    ProvisioningRequest,
)
from muster.controller.gangs.retry import RETRY_AT
from muster.controller.gangs.split import Ask
from muster.controller.gangs.verify import is_usable
from muster.controller.kube.resource import Key
from muster.controller.kueue import identity
from muster.controller.kueue.checks import Checks
from muster.controller.kueue.claim_cache import Memory
from muster.controller.kueue.contention import Neighbours, may_be_split, place_of
from muster.controller.kueue.indexes import BY_REPLACED, BY_WORKLOAD, workload_key
from muster.controller.kueue.objects import ClusterQueue, ResourceFlavor, Workload
from muster.controller.kueue.slices import base, before_it, beneath, heirs, is_stood_on
from muster.controller.kueue.snapshot import Part, Situation, claims_of
from muster.controller.runtime.informer import Informer
from muster.model.names import AVOID_ANNOTATION, GKE_LEASE_LABEL, POOL_LABEL


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The caches, asked in the words of the domain."""

    workloads: Informer[Workload]
    requests: Informer[ProvisioningRequest]
    templates: Informer[PodTemplate]
    placeholders: Informer[Placeholder]
    nodes: Informer[Node]
    pods: Informer[Pod]
    flavors: Informer[ResourceFlavor]
    queues: Informer[ClusterQueue]
    checks: Checks
    memory: Memory = field(default_factory=Memory)

    def situation(self, workload: Workload, check: str, *, now: datetime) -> Situation:
        """Everything that a decision about this Workload and this check depends on."""
        plain = self._plain(workload, check, now)
        try:
            if plain.runs:
                return self._running(plain)
            if not plain.is_gathering:
                return plain
            plain = self._running(plain) if plain.is_growth else plain
            others = tuple(self._neighbours().in_line(plain)) if plain.gang.is_split else ()
            if not plain.is_provisioned:
                lacks = plain.lacks_pods
                near = plain.among(others=others, nodes=plain.nodes, pods=plain.pods, lacks_pods=lacks)
                return near if others else plain
            found = {node.metadata.name: node for node in (*plain.nodes, *self._nodes(plain))}
            nodes = tuple(found.values())
            return plain.among(
                others=others,
                nodes=nodes,
                pods=self._pods(nodes),
                claims=self._neighbours().claims(plain),
                lacks_pods=plain.lacks_pods,
            )
        except ValueError:
            return plain  # A quantity that is none: the machine meets it too, and says so.

    def _running(self, plain: Situation) -> Situation:
        """A gang whose pods all have a node needs no further look, and most have.

        Neither has one of which nothing runs yet, for a while, unless it has nodes of its own: to look for
        room in shared pools for every gang that starts would cost what the cluster costs.
        """
        carried = plain.carried
        claims = [claim for each in carried.values() for claim in each]
        consumed = dict.fromkeys(claim.request for claim in claims)
        own = [pod for name in consumed for pod in self.pods.store.by_index(BY_REQUEST, name)]
        under = [node for pod in own if (node := self.nodes.get(Key("", pod.spec.node_name)))]
        if is_settled(plain.standing, carried, nodes=under, pods=own, ended=plain.ended):
            return plain
        is_shared = not all(GKE_LEASE_LABEL in claim.node_selector for claim in claims)
        if is_shared and not own and not plain.is_overdue:
            return replace(plain, is_unseen=True)
        standing = [demand for ask in plain.standing.asks for demand in ask.demands]
        pooled = self._pooled(standing) if is_shared else ()
        found = (*self._leased(claims), *pooled, *under)
        nodes = tuple({node.metadata.name: node for node in found}.values())
        return plain.among(lacks_pods=True, nodes=nodes, pods=self._pods(nodes))

    def _leased(self, claims: Iterable[Claim]) -> Iterator[Node]:
        for claim in claims:
            for lease in claim.node_selector.values():
                yield from self.nodes.store.by_index(BY_LEASE, lease)

    def leaning_on(self, before: Node | None, after: Node | None) -> Iterable[Key]:
        """The Workloads whose gangs lose something when this node goes or is no longer usable."""
        if before is None or not is_usable(before) or (after is not None and is_usable(after)):
            return ()
        pods = self.pods.store.by_index(BY_NODE, before.metadata.name)
        consumed = {Key(pod.metadata.namespace, name) for pod in pods for name in request_of(pod)}
        made = [item for key in consumed if (item := self._made_for(key))]
        leased = self.requests.store.by_index(BY_LEASE, lease_of(before)) if lease_of(before) else []
        return {key for item in (*made, *leased) for key in self.standing_on(item)}

    def _made_for(self, request: Key) -> Belonging | None:
        """The request, or its first template: clouds delete requests after a week, and the gang runs on."""
        template = Key(request.namespace, template_name(request.name, 0))
        return self.requests.get(request) or self.templates.get(template)

    def standing_on(self, item: Belonging) -> list[Key]:
        """The Workload that it was made for, and slices of an elastic gang that stand on that one."""
        key = workload_key(item)
        made_for = self.workloads.get(key)
        if made_for is None or not made_for.status.holds("Finished"):
            return [key]
        return [key, *(heir.key for heir in heirs(made_for, self._later))]

    def stands_in_line(self, workload: Workload, check: str, *, now: datetime) -> bool:
        """Whether this may be a split gang that asks, or waits to ask, for its next piece."""
        return may_be_split(workload) and place_of(self._plain(workload, check, now)) is not None

    def checks_of(self, workload: Workload) -> tuple[str, ...]:
        """Our checks on this Workload, and those that it has left something of."""
        entries = {
            entry.name for entry in workload.status.admission_checks if self.checks.is_ours(entry.name)
        }
        requests, templates = self._belongings(workload.key)
        items = (*requests, *templates, *self.placeholders.store.by_index(BY_WORKLOAD, workload.key))
        entries |= {item.metadata.labels.get(identity.CHECK, "") for item in items}
        if not entries and not {RETRY_AT, AVOID_ANNOTATION}.isdisjoint(workload.metadata.annotations):
            entries = {""}  # Its queue has lost the check while it waited: it must not wait for ever.
        return tuple(sorted(entries))

    def orphans(self, key: Key, workload: Workload | None) -> list[Belonging]:
        """What an earlier Workload of this name left, where garbage collection did not reach."""
        uid = workload.metadata.uid if workload else ""
        requests, templates = self._belongings(key)
        kept = self.placeholders.store.by_index(BY_WORKLOAD, key)
        items: list[Belonging] = [*requests, *templates, *kept]
        foreign = (item for item in items if item.metadata.labels.get(identity.WORKLOAD_UID) != uid)
        return [item for item in foreign if not item.metadata.deletion_timestamp]

    def _plain(self, workload: Workload, check: str, now: datetime) -> Situation:
        requests, templates = self._belongings(workload.key)
        mine = {identity.WORKLOAD_UID: workload.metadata.uid, identity.CHECK: check}
        return Situation(
            check=check,
            workload=workload,
            now=now,
            policy=self.checks.policy(check),
            flavors={flavor.metadata.name: flavor for flavor in self.flavors.store},
            queue_flavors=self._queue_flavors(workload),
            is_leaving=self.checks.is_leaving(),
            base=base(workload, self.workloads.get),
            beneath=tuple(self._beneath(workload, check)),
            is_stood_on=workload.status.holds("Finished") and is_stood_on(workload, self._later),
            requests=tuple(item for item in requests if mine.items() <= item.metadata.labels.items()),
            templates=tuple(item for item in templates if mine.items() <= item.metadata.labels.items()),
            placeholders=tuple(
                item
                for item in self.placeholders.store.by_index(BY_WORKLOAD, workload.key)
                if mine.items() <= item.metadata.labels.items()
            ),
        )

    def _beneath(self, workload: Workload, check: str) -> Iterator[Part]:
        for before in beneath(workload, self.workloads.get):
            if claims := claims_of(before.entry(check)):
                names = {claim.request for claim in claims.values()}
                requests, _ = self._belongings(before.key)
                used = tuple(request for request in requests if request.metadata.name in names)
                yield Part(claims=claims, requests=used)

    def _neighbours(self) -> Neighbours:
        return Neighbours(
            workloads=self.workloads,
            requests=self.requests,
            pods=self.pods,
            flavors=self.flavors,
            checks=self.checks,
            memory=self.memory,
            plain=self._plain,
        )

    def _queue_flavors(self, workload: Workload) -> tuple[tuple[str, ...], ...]:
        admission = workload.status.admission
        queue = self.queues.get(Key("", admission.cluster_queue)) if admission else None
        groups = queue.spec.resource_groups if queue else ()
        return tuple(tuple(flavor.name for flavor in group.flavors) for group in groups)

    def slices_before(self, workload: Workload) -> list[Key]:
        """The Workloads whose capacity stays or goes with this one."""
        return [before.key for before in before_it(workload, self.workloads.get)]

    def _later(self, key: Key) -> list[Workload]:
        return self.workloads.store.by_index(BY_REPLACED, key)

    def _belongings(self, key: Key) -> tuple[list[ProvisioningRequest], list[PodTemplate]]:
        return (
            self.requests.store.by_index(BY_WORKLOAD, key),
            self.templates.store.by_index(BY_WORKLOAD, key),
        )

    def _nodes(self, mine: Situation) -> Iterable[Node]:
        """The nodes of the gang's leases, and of its pools where it has none of its own; all of them where
        no pool is named.
        """
        leased = (
            node for lease in sorted(leases_of(mine)) for node in self.nodes.store.by_index(BY_LEASE, lease)
        )
        return {node.metadata.name: node for node in (*leased, *self._pooled(_unpinned(mine)))}.values()

    def _pooled(self, demands: Iterable[Demand]) -> Iterable[Node]:
        """The nodes of their pools; all of them where one names no pool."""
        pools = {demand.needs.node_selector.get(POOL_LABEL, "") for demand in demands}
        if "" in pools:
            return self.nodes.store
        return (node for pool in sorted(pools) for node in self.nodes.store.by_index(BY_POOL, pool))

    def _pods(self, nodes: Iterable[Node]) -> Iterator[Pod]:
        for node in nodes:
            yield from self.pods.store.by_index(BY_NODE, node.metadata.name)


def leases_of(situation: Situation) -> frozenset[str]:
    """The leases whose nodes are its own."""
    pins = (_pin(situation, ask) for ask in situation.gang.asks)
    return frozenset(pin for pin in pins if pin)


def has_only_leases(situation: Situation) -> bool:
    """Whether no node but those of its own leases can concern it."""
    return not any(_unpinned(situation))


def _unpinned(situation: Situation) -> Iterator[Demand]:
    """What may run on nodes that others use as well."""
    for ask in situation.gang.asks:
        if not _pin(situation, ask):
            yield from ask.demands
    yield from situation.gang.present


def _pin(situation: Situation, ask: Ask) -> str:
    request = situation.current.get(ask.shape)
    return pins_of(ask, request).get(GKE_LEASE_LABEL, "") if request else ""
