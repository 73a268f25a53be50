"""Nodes that a queued request has brought and that its gang has left, for another gang to take.

The autoscaler of GKE keeps such nodes idle for ten minutes and gives none of them to the next request: each
request is a purchase of its own. They may be used all the same. What keeps a pod on the nodes of a request is
a node selector of the lease's label, which GKE's webhook gives to pods with the consume annotation; for the
scheduler they are nodes like others, and no node with pods is scaled down.
Sources, read 2026-11-28: https://github.com/GoogleCloudPlatform/cluster-autoscaler (commit 7d250507,
pkg/provisioningrequests: processors/scale_down_node_processor.go, processors/pod_list_processor.go,
reconciler/resize_request_reconciler.go) and the comment of 2026-08-18 on
https://github.com/kubernetes-sigs/kueue/pull/14316.

So the pods of the next gang carry the selector of the lease and no consume annotation. The PodTemplates of
what it would have requested name the lease, and no request follows them: they are the booking, which a crash
leaves whole. Classes of cluster-autoscaler need none of this: it looks for room on existing nodes first. The
pods of one PodSet have one node selector, so one lease has to hold all of them.
"""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import groupby, islice
from typing import Final

from muster.controller.gangs.demand import Demand, amounts_once
from muster.controller.gangs.identity import place_of_template, request_of_template
from muster.controller.gangs.lease import RUN, format_time, lease_end, parse_time, run_duration
from muster.controller.gangs.objects import (
    Belonging,
    Condition,
    Node,
    Pod,
    PodTemplate,
    ProvisioningRequest,
    ProvisioningRequestSpec,
    ProvisioningRequestStatus,
)
from muster.controller.gangs.progress import is_due
from muster.controller.gangs.split import RequestSpec
from muster.controller.gangs.usage import used_by
from muster.controller.gangs.verify import PodDemand, verify
from muster.controller.kube.resource import ObjectMeta
from muster.model.names import (
    DEVICE_RESOURCES,
    GKE_LEASE_DETAIL,
    GKE_LEASE_LABEL,
    GKE_QUEUED_CLASS,
    GROUP,
    LEASE_ENDS_ANNOTATION,
)
from muster.model.pods import Amounts
from muster.model.quantities import read_count

TAKEN: Final = f"{GROUP}/taken-lease"
"""On a PodTemplate: the lease on whose nodes its pods will run, in place of a request's."""
_PODS: Final = f"{GROUP}/taken-for"
"""On the same: for how many pods, of all PodSets of the request."""
_LEFT: Final = f"{GROUP}/taken-idle-since"
"""On the same: since when the nodes have been idle. The cloud counts from then, whichever gang takes them."""
_MOST: Final = 20
"""Leases of a pool that one gang looks at, those that were left last."""
_NOT_REMOVED_FOR: Final = timedelta(minutes=8)
"""GKE removes nodes that are idle for ten: two are left for the pods of the next gang to be bound."""
_WAITED_FOR: Final = timedelta(minutes=10)
"""Pods that may end later are not waited for. It takes so long at least until their nodes are sold again."""
_USABLE_FOR: Final = timedelta(minutes=9)
"""After so long a gang that took them and is not whole gives them back. Longer than the time above, whatever
bookings the policy has, or the gang would take them again at once.
"""


class TakenLease(ProvisioningRequest, frozen=True):
    """A lease that another gang has left, as the request that it stands in for. No API server keeps it."""

    ends: datetime | None = None
    left: datetime | None = None

    @property
    def idle_until(self) -> datetime | None:
        return self.left + _USABLE_FOR if self.left else None


@dataclass(frozen=True, slots=True, kw_only=True)
class VacatedLease:
    """`pods`: all that are on its nodes, `left`: when its last gang lost it, `ends`: when its run duration is
    over.
    """

    name: str
    pool: str
    left: datetime
    ends: datetime
    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()

    def notes(self, spec: RequestSpec) -> dict[str, str]:
        """The annotations of PodTemplates whose pods take it."""
        return {
            TAKEN: self.name,
            _PODS: str(spec.count),
            _LEFT: format_time(self.left),
            LEASE_ENDS_ANNOTATION: format_time(self.ends),
        }

    def holds(self, spec: RequestSpec, *, now: datetime) -> bool:
        """Whether every pod of this request has room now, on nodes where no other pod has a device. Raises
        ValueError for a bad quantity.
        """
        used = used_by(self.pods)
        free = [node for node in self.nodes if not _has_devices(used.get(node.metadata.name, {}))]
        lasts = self.ends - now >= _run_needed(spec) and now - self.left < _NOT_REMOVED_FOR
        placed = verify(list(map(_pod_demand, spec.demands)), nodes=free, used=used)
        return lasts and all(each.is_complete for each in placed)

    def will_hold(self, spec: RequestSpec, *, now: datetime) -> bool:
        """The same, once the pods have gone that are ending and due. Nodes that are all in use are idle from
        then on.
        """
        staying, used = tuple(pod for pod in self.pods if not _ends_soon(pod, now)), used_by(self.pods)
        is_in_use = all(_has_devices(used.get(node.metadata.name, {})) for node in self.nodes)
        left = now if is_in_use else self.left
        return len(staying) < len(self.pods) and replace(self, pods=staying, left=left).holds(spec, now=now)


def _ends_soon(pod: Pod, now: datetime) -> bool:
    due = pod.metadata.deletion_timestamp
    return due is not None and due - now <= _WAITED_FOR and is_due(pod, now=now)


def uses_device(pod: Pod) -> bool:
    """Not once it has ended, nor where a quantity of it cannot be read."""
    try:
        return not pod.status.has_ended and _has_devices(amounts_once(pod.spec))
    except ValueError:
        return False


def _has_devices(used: Amounts) -> bool:
    return any(used.get(device) for device in DEVICE_RESOURCES)


def _pod_demand(demand: Demand) -> PodDemand:
    return PodDemand(name=demand.pod_set, pool=demand.flavor.name, count=demand.count, needs=demand.needs)


def can_be_taken(spec: RequestSpec) -> bool:
    """Whether nodes of a lease can serve this request, and its pods can be pinned to them."""
    flavor = spec.flavor
    pins = {each.key: each.detail for each in flavor.node_selector_from_details}
    is_queued = flavor.provisioning_class_name == GKE_QUEUED_CLASS and flavor.verify_nodes
    return is_queued and pins == {GKE_LEASE_LABEL: GKE_LEASE_DETAIL}


def _run_needed(spec: RequestSpec) -> timedelta:
    """What a job asks for itself it gets. The pool's own run duration is a bound that few jobs reach: half of
    it is enough, and a gang whose lease ends queues again without a failed try.
    """
    asked = run_duration(spec.parameters)
    return asked / 2 if spec.parameters.get(RUN) == spec.flavor.parameters.get(RUN) else asked


def is_taken(template: PodTemplate) -> bool:
    return TAKEN in template.metadata.annotations


def lease_taken(template: PodTemplate) -> list[str]:
    """For an index."""
    lease = template.metadata.annotations.get(TAKEN)
    return [lease] if lease else []


def pods_of_taken(template: PodTemplate) -> int:
    """The pods of the whole request that took it; 0 for a template of another kind."""
    return read_count(template.metadata.annotations.get(_PODS, ""), most_digits=6) or 0


def taken_leases(templates: Iterable[PodTemplate]) -> Iterator[TakenLease]:
    """One for each request that these templates stand in for."""
    taken = sorted(filter(is_taken, templates), key=lambda each: place_of_template(each.metadata.name))
    for name, group in groupby(taken, key=lambda each: request_of_template(each.metadata.name)):
        meta = next(group).metadata
        since = meta.creation_timestamp
        yield TakenLease(
            metadata=ObjectMeta(
                name=name,
                namespace=meta.namespace,
                uid=meta.uid,
                creation_timestamp=since,
                labels=meta.labels,
                annotations=meta.annotations,
            ),
            spec=ProvisioningRequestSpec(provisioning_class_name=GKE_QUEUED_CLASS),
            status=ProvisioningRequestStatus(
                conditions=tuple(
                    Condition(type=kind, status="True", reason="Taken", last_transition_time=since)
                    for kind in ("Accepted", "Provisioned")
                ),
                provisioning_class_details={GKE_LEASE_DETAIL: meta.annotations[TAKEN]},
            ),
            ends=parse_time(meta.annotations.get(LEASE_ENDS_ANNOTATION, "")),
            left=parse_time(meta.annotations.get(_LEFT, "")),
        )


@dataclass(frozen=True, slots=True)
class Left:
    """A lease, when it was left, when it ends, and by what its last gang had it."""

    name: str
    at: datetime
    ends: datetime
    item: Belonging


@dataclass(slots=True)
class LeftLeases:
    """The leases that gangs have left, by pool. In memory alone: a request that is deleted takes the end of
    its lease with it, and a process that has just started asks the cloud.
    """

    _by_pool: dict[str, dict[str, Left]] = field(default_factory=dict)
    _taking: set[str] = field(default_factory=set)

    def leave(self, left: Left, *, pool: str) -> None:
        """Its gang has lost its quota, or what it had it by is deleted."""
        leases = self._by_pool.setdefault(pool, {})
        before = leases.pop(left.name, left)  # The last one to be left comes last.
        leases[left.name] = replace(left, at=max(left.at, before.at))

    def stop_using(self, leases: Collection[str], *, at: datetime) -> None:
        """A gang has run on them until then. The cloud may have deleted the requests of some long before."""
        for pool, known in self._by_pool.items():
            for left in [known[name] for name in leases if name in known]:
                self.leave(replace(left, at=at), pool=pool)

    def forget(self, lease: str, *, pool: str) -> None:
        """Its nodes are gone."""
        self._by_pool.get(pool, {}).pop(lease, None)

    def of(self, pool: str) -> Iterator[Left]:
        """Those that no decision takes that is being carried out, the last first."""
        leases = self._by_pool.get(pool, {})
        return (leases[name] for name in islice(reversed(leases), _MOST) if name not in self._taking)

    @contextmanager
    def taking(self, leases: Iterable[str]) -> Iterator[None]:
        """While the PodTemplates that name these are being written."""
        taken = set(leases)
        self._taking |= taken
        try:
            yield
        finally:
            self._taking -= taken


def lease_had(item: Belonging, *, now: datetime, has_run: bool) -> Left | None:
    """The lease that a gang had by this item until now; None where it had none by it, or loses it. The nodes
    of one that it took and never ran on are idle for longer.
    """
    notes = item.metadata.annotations
    if isinstance(item, PodTemplate):
        lease, ends = notes.get(TAKEN, ""), parse_time(notes.get(LEASE_ENDS_ANNOTATION, ""))
        now = now if has_run else parse_time(notes.get(_LEFT, "")) or now
    elif isinstance(item, ProvisioningRequest) and not item.status.holds("CapacityRevoked"):
        lease, ends = item.status.provisioning_class_details.get(GKE_LEASE_DETAIL, ""), lease_end(item)
    else:
        return None
    return Left(lease, now, ends, item) if lease and ends else None
