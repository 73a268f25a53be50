"""Deletes pods with devices that run on in a team's namespace without quota.

Policies refuse, field by field, what lets pods outlive their quota, and no list of fields is complete. This
judges the effect. Every `PERIOD` the caches show which pods' work has no Workload with quota. What stays so
for a minute and the pod's own grace period is read again from the API server, Workloads last, and then the
pod is deleted by its uid and resourceVersion. Nothing is deleted by the word of a cache.

Times are those since this process has seen it, so a wrong clock, a restart or an outage only delays a
deletion. With KAI there is no backstop: KAI counts the pods themselves and ends them without their owner.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

import msgspec
import structlog

from muster.controller.gangs.metrics import GangMetrics
from muster.controller.gangs.objects import Pod, PodSpec, Reported
from muster.controller.kube import decoding
from muster.controller.kube.client import Client, Selection
from muster.controller.kube.errors import ApiError, KubeError, NotFound
from muster.controller.kube.resource import Key, Object, ObjectMeta, OwnerReference, Resource, T
from muster.controller.kueue.objects import WORKLOAD, Workload
from muster.controller.runtime.events import EventRecorder, Reference
from muster.controller.runtime.informer import Informer
from muster.model.names import DEVICE_PREFIXES, KUBERAY_ORIGIN_LABEL, TEAM_LABEL
from muster.model.work import PARTS, QUEUED

PERIOD: Final = 20.0
"""Seconds between two looks."""
PATIENCE: Final = 60.0
"""Seconds without quota that a pod gets beside its own grace period."""
SPARED: Final = 300.0
"""Seconds until work is read again that the caches do not know and the API server shows with quota."""
REMEMBERED: Final = 600.0
"""Seconds after which work without pods is forgotten: pods that are made again get no new minute."""
MOST: Final = 100
"""Pods of one namespace in one look, so that its Workloads were read just before."""
_BATCH: Final = 2000


class LivePodSpec(PodSpec, frozen=True):
    termination_grace_period_seconds: int = 30


class LivePod(Pod, frozen=True):
    """As it is read before it is deleted."""

    spec: LivePodSpec = LivePodSpec()


LIVE_POD: Final = Resource("", "v1", "pods", "Pod", True, LivePod, annotation_prefixes=())
TEAM_NAMESPACE: Final = Resource(
    *("", "v1", "namespaces", "Namespace", False, Object), annotation_prefixes=(), title="team namespaces"
)
OF_TEAMS: Final = Selection(labels=TEAM_LABEL)
_OWNERS: Final = {
    (each.group, each.kind): Resource(
        *(each.group, each.version, each.resource, each.kind, True, Object), annotation_prefixes=()
    )
    for each in PARTS
}
"""What makes pods and may have a controller itself."""
MADE_CLUSTER: Final = replace(_OWNERS["ray.io", "RayCluster"], title="ray owners")
BY_KUBERAY: Final = Selection(labels=KUBERAY_ORIGIN_LABEL)
"""Ray clusters that KubeRay makes for RayJobs and RayServices: only for those that run, so they are few."""
_QUEUED: Final = frozenset(kind.kind for kind in QUEUED)
"""The kinds that a stack's Kueue queues. A cluster's own Kueue may have others."""
_WORKLOADS: Final = msgspec.json.Decoder(Reported)


class Standing(Enum):
    """What the work of a pod holds."""

    QUOTA = "quota"
    FINISHED = "finished"
    """Its quota went back because it has finished: KubeRay keeps its cluster for a while."""
    NOTHING = "nothing"
    UNQUEUED = "unqueued"
    """Nothing, and no Workload is known for it."""


Workloads = Mapping[str, Sequence[Workload | Reported]]
"""Workloads by the uids of their owners, and by their own, which is the owner of placeholders."""


def standing(chain: Iterable[str], workloads: Workloads) -> Standing:
    """Judge a pod by the nearest object that has a Workload. `chain`: the uids of the pod, of its controller,
    and of that one's.

    The nearest, because a Job that was given somebody's cluster as its owner is not what that one's quota is
    for. Of several Workloads, the slices of an elastic gang, one with quota is enough.
    """
    for uid in chain:
        if found := workloads.get(uid):
            if any(has_quota(each) for each in found):
                return Standing.QUOTA
            is_over = all(each.status.holds("Finished") for each in found)
            return Standing.FINISHED if is_over else Standing.NOTHING
    return Standing.UNQUEUED


def has_quota(workload: Workload | Reported) -> bool:
    """Kueue leaves QuotaReserved on a Workload that has finished, and on one whose job does not stop."""
    status = workload.status
    return (
        status.holds("QuotaReserved")
        and not status.holds("Evicted")
        and not status.holds("Finished")
        and workload.metadata.deletion_timestamp is None
    )


def asks_for_devices(spec: PodSpec) -> bool:
    """As muster/render/tenancy/policies/muster-templates.yaml does, but for amounts of zero."""
    needs = (spec.resources, *(each.resources for each in (*spec.containers, *spec.init_containers)))
    return bool(spec.resource_claims) or any(
        name.startswith(DEVICE_PREFIXES) and str(amount) != "0"
        for need in needs
        for amounts in (need.requests, need.limits)
        for name, amount in amounts.items()
    )


@dataclass(slots=True)
class _Group:
    """Pods of one controller while some have no quota, in seconds of the clock."""

    since: float
    seen: float
    spared_until: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Caches:
    """What the look reads first."""

    pods: Informer[Pod]
    workloads: Informer[Workload]
    namespaces: Informer[Object]
    clusters: Informer[Object]

    @property
    def are_read(self) -> bool:
        """A cluster without KubeRay serves no RayCluster."""
        needed = (self.pods, self.workloads, self.namespaces)
        has_clusters = self.clusters.has_synced or self.clusters.is_unserved
        return has_clusters and all(each.has_synced for each in needed)


class Backstop:
    """Looks on the leader alone. `kept`: seconds that a finished RayJob may keep its cluster for
    (`tenancy.terminationGrace`).
    """

    def __init__(
        self,
        client: Client,
        caches: Caches,
        *,
        kept: float,
        events: EventRecorder,
        metrics: GangMetrics,
        leads: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._caches, self._kept = client, caches, kept
        self._events, self._metrics, self._leads, self._clock = events, metrics, leads, clock
        self._groups: dict[str, _Group] = {}
        self._log = structlog.get_logger("backstop")

    async def run(self) -> None:
        """Look forever; a failure must not end the process."""
        while True:
            try:
                await self.look()
            except Exception:
                self._log.exception("did not look for pods without quota")
            await asyncio.sleep(PERIOD)

    async def look(self) -> None:
        """Delete what has had no quota for too long."""
        if not self._leads() or not self._caches.are_read:
            self._groups.clear()
            self._metrics.pods_without_quota.set(0)
            return
        pods = await self._pods_with_devices()
        workloads = await self._cached({uid for pod in pods for uid in self._cached_chain(pod)})
        lacking = [pod for pod in pods if standing(self._cached_chain(pod), workloads) is not Standing.QUOTA]
        now = self._clock()
        self._note(pods, lacking, now)
        due: dict[str, list[Pod]] = defaultdict(list)
        for pod in lacking:
            group = self._groups[_group_of(pod)]
            if now >= group.since + PATIENCE and now >= group.spared_until:
                due[pod.metadata.namespace].append(pod)
        left = 0
        for namespace, found in due.items():
            try:
                left += await self._end(namespace, found[:MOST]) + len(found[MOST:])
            except (KubeError, msgspec.MsgspecError) as error:
                left += len(found)
                self._log.warning("pods without quota stay", namespace=namespace, error=str(error))
        self._metrics.pods_without_quota.set(left)

    # The caches

    async def _pods_with_devices(self) -> list[Pod]:
        """Those on nodes, in namespaces of teams, that do not end already."""
        teams = {namespace.metadata.name for namespace in self._caches.namespaces.store}
        found: list[Pod] = []
        async for pod in _in_turns(self._caches.pods.store):
            is_running = pod.metadata.namespace in teams and pod.metadata.deletion_timestamp is None
            if is_running and asks_for_devices(pod.spec):
                found.append(pod)
        return found

    async def _cached(self, uids: set[str]) -> Workloads:
        """One pass over all Workloads takes milliseconds; an index of them would stay in memory."""
        found: dict[str, list[Workload | Reported]] = defaultdict(list)
        async for workload in _in_turns(self._caches.workloads.store if uids else ()):
            for uid in _uids_of(workload.metadata) & uids:
                found[uid].append(workload)
        return found

    def _cached_chain(self, pod: Pod) -> tuple[str, ...]:
        owner = _controller(pod.metadata)
        made = self._caches.clusters.store.by_uid(owner.uid) if owner else None
        return _chain(pod, owner, _controller(made.metadata) if made else None)

    def _note(self, pods: Iterable[Pod], lacking: Iterable[Pod], now: float) -> None:
        without = {_group_of(pod) for pod in lacking}
        for uid in without:
            self._groups.setdefault(uid, _Group(since=now, seen=now)).seen = now
        covered = {_group_of(pod) for pod in pods} - without
        self._groups = {
            uid: group
            for uid, group in self._groups.items()
            if uid not in covered and now - group.seen < REMEMBERED
        }

    # The API server

    async def _end(self, namespace: str, pods: Sequence[Pod]) -> int:
        """Read everything again and delete what still has no quota. Returns how many had to stay."""
        above: dict[str, list[OwnerReference]] = {}
        for owner in filter(None, (_controller(pod.metadata) for pod in pods)):
            if owner.uid not in above:
                above[owner.uid] = await self._owners(namespace, owner)
        owners = {pod.metadata.uid: above.get(_group_of(pod), []) for pod in pods}
        chains = {pod.metadata.uid: _chain(pod, *owners[pod.metadata.uid]) for pod in pods}
        workloads, is_foreign = await self._read(
            namespace, {uid for chain in chains.values() for uid in chain}
        )
        left = 0
        for pod in pods:
            found = standing(chains[pod.metadata.uid], workloads)
            kind = next((each.kind for each in reversed(owners[pod.metadata.uid])), "Pod")
            is_unknown = found is Standing.UNQUEUED and kind not in _QUEUED
            if found is Standing.QUOTA or (is_foreign and is_unknown):
                self._groups[_group_of(pod)].spared_until = self._clock() + SPARED
            else:
                left += not await self._delete(pod, found)
        return left

    async def _owners(self, namespace: str, first: OwnerReference) -> list[OwnerReference]:
        """A controller of pods, its controller, and so on, as far as these are read."""
        owners, parent = [first], await self._parent(namespace, first)
        while parent is not None and parent not in owners:
            owners.append(parent)
            parent = await self._parent(namespace, parent)
        return owners

    async def _parent(self, namespace: str, owner: OwnerReference) -> OwnerReference | None:
        """The controller of a pod's controller. What is gone has none; other kinds are not read."""
        resource = _OWNERS.get((owner.api_version.partition("/")[0], owner.kind))
        if resource is None:
            return None
        try:
            found = await self._client.get(resource, Key(namespace, owner.name))
        except NotFound:
            return None
        return _controller(found.metadata) if found.metadata.uid == owner.uid else None

    async def _read(self, namespace: str, uids: set[str]) -> tuple[Workloads, bool]:
        """The Workloads that concern these, and whether work of another kind than Muster queues has quota:
        what belongs to that is not known. Page by page: a namespace may have tens of thousands.
        """
        found: dict[str, list[Workload | Reported]] = defaultdict(list)
        is_foreign = False
        async for page in self._client.pages(WORKLOAD, Selection(namespace=namespace)):
            for raw in page.items or ():
                workload = decoding.decode(_WORKLOADS, raw)
                owners = workload.metadata.owner_references
                # Those of pods behind Kueue's gate have them among their owners, or one as the controller.
                is_ours = not owners or any(
                    each.kind in _QUEUED or (each.kind == "Pod" and each.controller) for each in owners
                )
                is_foreign |= has_quota(workload) and not is_ours
                for uid in _uids_of(workload.metadata) & uids:
                    found[uid].append(workload)
        return found, is_foreign

    async def _delete(self, pod: Pod, found: Standing) -> bool:
        """Whether nothing is left to do about it now."""
        try:
            live = await self._client.get(LIVE_POD, pod.key)
            meta = live.metadata
            if meta.uid != pod.metadata.uid or meta.deletion_timestamp or live.status.has_ended:
                return True
            if _group_of(live) != _group_of(pod):
                return False  # Its owner has changed since: the next look judges it by the new one.
            without = self._clock() - self._groups[_group_of(pod)].since
            kept = self._kept if found is Standing.FINISHED else 0.0
            if without < PATIENCE + live.spec.termination_grace_period_seconds + kept:
                return True
            await self._client.delete(LIVE_POD, pod.key, uid=meta.uid, resource_version=meta.resource_version)
        except NotFound:
            return True
        except ApiError as error:  # A conflict, or a webhook: other pods of the namespace go on.
            self._log.warning("pods without quota stay", pod=str(pod.key), error=str(error))
            return False
        self._report(live, without)
        return True

    def _report(self, pod: LivePod, without: float) -> None:
        self._metrics.deleted_without_quota.inc()
        meta, owner = pod.metadata, _controller(pod.metadata)
        about = Reference.to(LIVE_POD, pod)
        if owner is not None:
            about = Reference(owner.api_version, owner.kind, meta.namespace, owner.name, owner.uid)
        named = f"{about.kind} {about.name}"
        self._log.warning("deleted a pod without quota", pod=str(pod.key), uid=meta.uid, owner=named)
        self._events.event(
            about,
            "Warning",
            reason="PodWithoutQuota",
            action="Delete",
            note=f"deleted Pod {meta.name}: it had devices and no Workload with quota for {without:.0f} "
            f"seconds. Fix: submit work with the label of a queue, and delete {named} where its controller "
            "makes the pod again",
        )


async def _in_turns(items: Iterable[T]) -> AsyncIterator[T]:
    """Let other tasks run between a few thousand of them."""
    for count, item in enumerate(items, start=1):
        yield item
        if count % _BATCH == 0:
            await asyncio.sleep(0)


def _controller(meta: ObjectMeta) -> OwnerReference | None:
    """The controller among its owners. A placeholder has none, but the Workload that it waits for."""
    found = next((each for each in meta.owner_references if each.controller), None)
    return found or next((each for each in meta.owner_references if each.kind == "Workload"), None)


def _group_of(pod: Pod) -> str:
    owner = _controller(pod.metadata)
    return owner.uid if owner else pod.metadata.uid


def _chain(pod: Pod, *owners: OwnerReference | None) -> tuple[str, ...]:
    return (pod.metadata.uid, *(owner.uid for owner in owners if owner))


def _uids_of(workload: ObjectMeta) -> set[str]:
    return {workload.uid, *(owner.uid for owner in workload.owner_references)}
