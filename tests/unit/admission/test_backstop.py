"""Pods without quota go, and nothing with quota is touched: drawn histories with late caches, an API server
that fails, and leaders that change.

A step changes the truth; the caches hear of it later, in order. What each work holds is kept apart from the
objects, so the judgement of the code is compared with another one.
"""

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, cast

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from muster.controller.gangs.metrics import GangMetrics
from muster.controller.gangs.objects import POD, Condition, Container, PodStatus, Quantities, ResourceNeeds
from muster.controller.kube.client import Client, ListMeta, RawPage, Selection
from muster.controller.kube.errors import Conflict, NotFound, Status, TransportError
from muster.controller.kube.resource import Key, Object, ObjectMeta, OwnerReference, Resource
from muster.controller.kueue.backstop import (
    LIVE_POD,
    MADE_CLUSTER,
    PATIENCE,
    PERIOD,
    REMEMBERED,
    SPARED,
    TEAM_NAMESPACE,
    Backstop,
    Caches,
    LivePod,
    LivePodSpec,
)
from muster.controller.kueue.objects import WORKLOAD, Workload, WorkloadStatus
from muster.controller.runtime.events import EventRecorder, Reference
from muster.model.names import GPU_RESOURCE, KUBERAY_ORIGIN_LABEL
from tests.length import examples
from tests.unit.gangs.cached import cached

replace = msgspec.structs.replace

KEPT: Final = 120
GRACES: Final = (0, 2, 30, 120)
TEAMS: Final = ("team-a", "team-b")
FOREIGN: Final = "team-b"
"""Where work of other kinds than Muster queues has quota too."""
LONGEST: Final = PATIENCE + max(GRACES) + KEPT + SPARED + 4 * PERIOD
_API: Final = {"Job": "batch/v1", "JobSet": "jobset.x-k8s.io/v1alpha2", "ReplicaSet": "apps/v1"}
_OUR_KINDS: Final = ("job", "rayjob", "cluster", "elastic", "jobset", "placeholder", "deployment", "bare")
_FOREIGN_KINDS: Final = ("trainjob", "pods")


@dataclass(slots=True, eq=False)
class Work:
    """`chain`: references from the pods' controller upwards. `owner`: whose its Workloads are. `lost`: since
    when it has no quota; None while it has. `finished`: whether it gave the quota back by its end.
    """

    kind: str
    namespace: str
    chain: list[OwnerReference] = field(default_factory=list)
    owner: OwnerReference | None = None
    workloads: list[str] = field(default_factory=list)
    pods: set[str] = field(default_factory=set)
    lost: float | None = None
    finished: bool = False


class Plane:
    """The truth, the caches behind it and the clock."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.now, self.version, self.numbers = 1000.0, 1, 0
        self.objects: dict[tuple[str, Key], Any] = {}
        self.late: dict[str, deque[tuple[float, Any, bool]]] = {}
        self.leads, self.fails = True, 0.0
        self.works: list[Work] = []
        self.deleted: list[str] = []
        self.news: list[Reference] = []
        spaces = [
            Object(metadata=ObjectMeta(name=name, uid=name, resource_version="1"))
            for name in (*TEAMS, "kube-system")
        ]
        self.caches = Caches(
            pods=cached(POD, []),
            workloads=cached(WORKLOAD, []),
            namespaces=cached(TEAM_NAMESPACE, spaces[:-1]),
            clusters=cached(MADE_CLUSTER, []),
        )
        for cache in (self.caches.pods, self.caches.workloads, self.caches.namespaces, self.caches.clusters):
            cache.relisted("start", 0)
        self.of: dict[str, Any] = {
            "Pod": self.caches.pods,
            "Workload": self.caches.workloads,
            "RayCluster": self.caches.clusters,
        }
        self.metrics = GangMetrics(CollectorRegistry())
        self.backstop = self.started()

    def started(self) -> Backstop:
        return Backstop(
            cast(Client, self),
            self.caches,
            kept=KEPT,
            events=cast(EventRecorder, self),
            metrics=self.metrics,
            leads=lambda: self.leads,
            clock=lambda: self.now,
        )

    # The truth

    def name(self, kind: str) -> str:
        self.numbers += 1
        return f"{kind.lower()}-{self.numbers}"

    def write(self, kind: str, item: Any) -> None:
        self.version += 1
        item = replace(item, metadata=replace(item.metadata, resource_version=str(self.version)))
        self.objects[kind, item.key] = item
        self._tell(kind, item, gone=False)

    def drop(self, kind: str, key: Key) -> None:
        item = self.objects.pop((kind, key), None)
        if item is not None:
            self.version += 1
            meta = replace(item.metadata, resource_version=str(self.version))
            self._tell(kind, replace(item, metadata=meta), gone=True)

    def _tell(self, kind: str, item: Any, *, gone: bool) -> None:
        if kind not in self.of:
            return
        waiting = self.late.setdefault(kind, deque())
        lag = self.draw.choice((0.0, 0.1, 1.0, 5.0, 45.0, 200.0))
        waiting.append((max([self.now + lag, *(at for at, _, _ in waiting)]), item, gone))

    def hear(self, *, all_of_it: bool = False) -> None:
        for kind, waiting in self.late.items():
            while waiting and (all_of_it or waiting[0][0] <= self.now):
                _, item, gone = waiting.popleft()
                store = cast(Any, self.of[kind].store)
                if kind == "RayCluster" and KUBERAY_ORIGIN_LABEL not in item.metadata.labels:
                    gone = True
                (store.remove if gone else store.put)(item)

    # What the code calls

    def _may_fail(self) -> None:
        if self.draw.random() < self.fails:
            raise TransportError("no answer", call="drawn")

    async def get(self, resource: Resource[Any], key: Key) -> Any:
        self._may_fail()
        found = self.objects.get((resource.kind, key))
        if found is None:
            raise NotFound(Status(code=404), call="get")
        return found

    async def pages(self, resource: Resource[Any], selection: Selection) -> AsyncIterator[RawPage]:
        items = [
            msgspec.Raw(msgspec.json.encode(each))
            for (kind, key), each in self.objects.items()
            if kind == resource.kind and key.namespace == selection.namespace
        ]
        for start in range(0, len(items) or 1, 2):
            self._may_fail()
            yield RawPage(
                metadata=ListMeta(resource_version=str(self.version)), items=items[start : start + 2]
            )

    async def delete(self, resource: Resource[Any], key: Key, *, uid: str, resource_version: str) -> bool:
        assert resource is LIVE_POD
        assert uid
        assert resource_version
        self._may_fail()
        pod = self.objects.get(("Pod", key))
        if pod is None:
            raise NotFound(Status(code=404), call="delete")
        if pod.metadata.uid != uid or pod.metadata.resource_version != resource_version:
            raise Conflict(Status(code=409), call="delete")
        self._judge(pod)
        self.deleted.append(key.name)
        self.drop("Pod", key)
        return True

    def _judge(self, pod: LivePod) -> None:
        (work,) = [each for each in self.works if pod.metadata.name in each.pods]
        assert work.lost is not None, f"{pod.key} of {work} has quota"
        assert pod.metadata.namespace in TEAMS
        assert pod.spec.containers[0].resources.limits

    def event(self, about: Reference, kind: str, **_: str) -> None:
        self.news.append(about)

    # Work

    def begin(self, kind: str, namespace: str) -> Work:
        work = Work(kind, namespace)
        uppers = {
            "job": ["Job"],
            "rayjob": ["RayCluster", self.draw.choice(("RayJob", "RayService"))],
            "cluster": ["RayCluster"],
            "elastic": ["RayCluster"],
            "jobset": ["Job", "JobSet"],
            "trainjob": ["Job", "JobSet", "TrainJob"],
            "deployment": ["ReplicaSet"],
        }.get(kind, [])
        work.chain = [self._reference(each, namespace) for each in uppers]
        for number, owner in enumerate(work.chain):
            self._own(owner, namespace, work.chain[number + 1 : number + 2], by_kuberay=kind == "rayjob")
        work.owner = work.chain[-1] if work.chain else None
        self.works.append(work)
        if kind in ("deployment", "bare"):
            work.lost = self.now
            self.add_pods(work)
        else:
            self.reserve(work)
        return work

    def _reference(self, kind: str, namespace: str) -> OwnerReference:
        name = self.name(kind)
        return OwnerReference(
            api_version=_API.get(kind, "ray.io/v1"), kind=kind, name=name, uid=f"uid-{name}", controller=True
        )

    def _own(
        self, owner: OwnerReference, namespace: str, above: list[OwnerReference], *, by_kuberay: bool = False
    ) -> None:
        labels = {KUBERAY_ORIGIN_LABEL: "RayJob"} if by_kuberay else {}
        meta = ObjectMeta(
            name=owner.name, namespace=namespace, uid=owner.uid, labels=labels, owner_references=tuple(above)
        )
        self.write(owner.kind, Object(metadata=meta))

    def add_pods(self, work: Work) -> None:
        """On nodes from the start. With a pod group each is an owner of the Workload."""
        for _ in range(self.draw.randint(1, 3)):
            name = self.name("pod")
            owners = tuple(work.chain[:1])
            if work.kind == "placeholder":
                owner = self.objects["Workload", Key(work.namespace, work.workloads[-1])].metadata
                owners = (OwnerReference(kind="Workload", name=owner.name, uid=owner.uid),)
            work.pods.add(name)
            pod = _pod(name, work.namespace, owners, grace=self.draw.choice(GRACES))
            if work.kind == "pods":
                self._of_group(work, name)
            self.write("Pod", pod)

    def _of_group(self, work: Work, pod: str) -> None:
        for name in work.workloads:
            key = Key(work.namespace, name)
            if (workload := self.objects.get(("Workload", key))) is not None:
                owners = (
                    *workload.metadata.owner_references,
                    OwnerReference(kind="Pod", name=pod, uid=f"uid-{pod}"),
                )
                meta = replace(workload.metadata, owner_references=owners)
                self.write("Workload", replace(workload, metadata=meta))

    def drop_pods(self, work: Work) -> None:
        for name in [*work.pods]:
            self.drop("Pod", Key(work.namespace, name))
        work.pods.clear()

    def reserve(self, work: Work) -> None:
        """Kueue gives quota, then its pods come. What ran without it has ended before."""
        self.drop_pods(work)
        name = self.name("workload")
        owners = (work.owner,) if work.owner else ()
        meta = ObjectMeta(name=name, namespace=work.namespace, uid=f"uid-{name}", owner_references=owners)
        for before in work.workloads:
            self._set(work, before, "Finished")
        work.workloads.append(name)
        self.write("Workload", Workload(metadata=meta, status=_status("QuotaReserved")))
        work.lost, work.finished = None, False
        self.add_pods(work)

    def _set(self, work: Work, name: str, *kinds: str, also: bool = True) -> None:
        workload = self.objects.get(("Workload", Key(work.namespace, name)))
        if workload is not None:
            old = [each.type for each in workload.status.conditions] if also else []
            self.write("Workload", replace(workload, status=_status(*{*old, *kinds})))

    def lose(self, work: Work) -> None:
        """In one of the ways in which work loses its quota while its pods run on."""
        if work.lost is not None or not work.workloads:
            return
        last = work.workloads[-1]
        way = self.draw.choice(
            ("evicted", "unreserved", "finished", "deleted", "ending", "detached", "given")
        )
        if way == "detached" and len(work.chain) > 1 and work.kind == "rayjob":
            self._detach(work)
        elif way == "given" and work.kind in ("job", "cluster"):
            self._give_away(work, last)
        elif way == "finished":
            self._set(work, last, "Finished")
            work.finished = True
        elif way == "deleted":
            self.drop("Workload", Key(work.namespace, last))
        elif way == "ending":
            workload = self.objects["Workload", Key(work.namespace, last)]
            meta = replace(workload.metadata, deletion_timestamp=datetime(2026, 11, 27, tzinfo=UTC))
            self.write("Workload", replace(workload, metadata=meta))
        elif way == "unreserved":
            self._set(work, last, also=False)
        else:
            self._set(work, last, "Evicted")
        work.lost = self.now

    def _detach(self, work: Work) -> None:
        """The cluster leaves its RayJob, which keeps the quota, and gets a Workload that waits."""
        cluster = work.chain[0]
        self._own(cluster, work.namespace, [], by_kuberay=self.draw.random() < 0.5)
        name = self.name("workload")
        meta = ObjectMeta(name=name, namespace=work.namespace, uid=f"uid-{name}", owner_references=(cluster,))
        self.write("Workload", Workload(metadata=meta))
        work.workloads.append(name)
        work.owner = cluster
        work.chain = work.chain[:1]

    def _give_away(self, work: Work, workload: str) -> None:
        """It is called somebody's child, which has quota, and its own Workload is evicted."""
        others = [each for each in self.works if each.kind == "cluster" and each is not work and each.chain]
        parent = self.draw.choice(others).chain[0] if others else work.chain[0]
        self._own(work.chain[0], work.namespace, [parent], by_kuberay=True)
        self._set(work, workload, "Evicted")

    def replace_slice(self, work: Work) -> None:
        """A scale-up of an elastic gang: a new Workload, and the pods run on."""
        if work.lost is not None:
            return
        name, before = self.name("workload"), work.workloads[-1]
        meta = ObjectMeta(
            name=name,
            namespace=work.namespace,
            uid=f"uid-{name}",
            owner_references=(work.owner,) if work.owner else (),
        )
        self.write("Workload", Workload(metadata=meta))
        if self.draw.random() < 0.7:
            self.write("Workload", Workload(metadata=meta, status=_status("QuotaReserved")))
            self._set(work, before, "Finished")
            work.workloads.append(name)

    # Steps

    def step(self) -> None:
        self.now += self.draw.choice((1.0, 7.0, 20.0, 35.0))
        for _ in range(self.draw.randint(0, 2)):
            work = self.draw.choice(self.works)
            match self.draw.randrange(7):
                case 0 | 1:
                    self.lose(work)
                case 2 if work.kind not in ("deployment", "bare"):
                    self.reserve(work)
                case 3 if work.kind == "elastic":
                    self.replace_slice(work)
                case 4 if work.kind != "placeholder":
                    self.add_pods(work)
                case 5:
                    self.leads = self.draw.random() < 0.8
                case 6:
                    self.fails = self.draw.choice((0.0, 0.0, 0.1, 1.0))
        if self.draw.random() < 0.05:
            self.backstop = self.started()

    def is_spared(self, work: Work) -> bool:
        """Whose work it is cannot be known where other kinds have quota."""
        foreign = any(each.kind in _FOREIGN_KINDS and each.lost is None for each in self.works)
        top = next((each.kind for each in reversed(work.chain)), "Pod")
        is_ours = top in ("Job", "JobSet", "RayCluster", "RayJob", "RayService")
        uids = {*(each.uid for each in work.chain), *(f"uid-{name}" for name in work.pods)}
        is_queued = any(
            owner.uid in uids
            for (kind, _), each in self.objects.items()
            if kind == "Workload"
            for owner in each.metadata.owner_references
        )
        return work.namespace == FOREIGN and foreign and not is_ours and not is_queued


def _pod(
    name: str, namespace: str, owners: tuple[OwnerReference, ...], *, grace: int = 0, gpus: str = "1"
) -> LivePod:
    limits: Quantities = {GPU_RESOURCE: gpus} if gpus else {}
    container = Container(resources=ResourceNeeds(limits=limits))
    spec = LivePodSpec(node_name="n", containers=(container,), termination_grace_period_seconds=grace)
    meta = ObjectMeta(name=name, namespace=namespace, uid=f"uid-{name}", owner_references=owners)
    return LivePod(metadata=meta, spec=spec, status=PodStatus(phase="Running"))


def _status(*kinds: str) -> WorkloadStatus:
    return WorkloadStatus(conditions=tuple(Condition(type=kind, status="True") for kind in kinds))


@pytest.mark.parametrize("seed", range(examples(200)))
async def test_what_has_no_quota_goes_and_nothing_else_is_touched(seed: int) -> None:
    plane = Plane(seed)
    plane.write("Pod", _pod("of-the-system", "kube-system", ()))
    plane.write("Pod", _pod("without-devices", "team-a", (), gpus=""))
    plane.write("Pod", _pod("with-none", "team-a", (), gpus="0"))
    for _ in range(plane.draw.randint(3, 8)):
        namespace = plane.draw.choice(TEAMS)
        plane.begin(
            plane.draw.choice(_OUR_KINDS + (_FOREIGN_KINDS if namespace == FOREIGN else ())), namespace
        )
    for _ in range(60):
        plane.step()
        plane.hear()
        await plane.backstop.look()
    plane.leads, plane.fails = True, 0.0
    plane.hear(all_of_it=True)
    for _ in range(int((LONGEST + REMEMBERED) / PERIOD)):
        plane.now += PERIOD
        await plane.backstop.look()
        plane.hear(all_of_it=True)
    left = {key.name for (kind, key) in plane.objects if kind == "Pod"}
    assert {"of-the-system", "without-devices", "with-none"} <= left
    for work in plane.works:
        kept = sorted(left & work.pods)
        if work.lost is None:
            assert kept == sorted(work.pods), f"{work} has quota"
        elif not plane.is_spared(work):
            assert not kept, f"{work} has none"
    assert len(plane.news) == len(plane.deleted) == len({*plane.deleted})


@pytest.mark.parametrize(("ends", "more"), [("Evicted", 0), ("Finished", KEPT)])
def test_a_pod_has_a_minute_and_its_own_grace_and_a_finished_job_the_longest_grace(
    ends: str, more: int
) -> None:
    plane, grace = Plane(0), 30
    work = plane.begin("rayjob", "team-a")
    plane.drop_pods(work)
    work.pods = {"pod"}
    plane.write("Pod", _pod("pod", "team-a", tuple(work.chain[:1]), grace=grace))
    plane._set(work, work.workloads[0], ends)
    work.lost = began = plane.now

    async def looks() -> float:
        while not plane.deleted:
            plane.hear(all_of_it=True)
            await plane.backstop.look()
            plane.now += PERIOD
        return plane.now - PERIOD - began

    assert PATIENCE + grace + more <= asyncio.run(looks()) < PATIENCE + grace + more + PERIOD
    (about,) = plane.news
    assert (about.kind, about.name) == ("RayCluster", work.chain[0].name)


def test_what_its_controller_makes_again_gets_no_new_minute() -> None:
    plane = Plane(0)
    work = plane.begin("deployment", "team-a")

    async def looks(seconds: float) -> None:
        end = plane.now + seconds
        while plane.now < end:
            plane.hear(all_of_it=True)
            await plane.backstop.look()
            plane.now += PERIOD

    asyncio.run(looks(PATIENCE + max(GRACES) + 2 * PERIOD))
    first = {*plane.deleted}
    assert first == work.pods
    plane.write("Pod", _pod("again", "team-a", tuple(work.chain)))
    work.pods.add("again")
    asyncio.run(looks(PERIOD))
    assert {*plane.deleted} - first == {"again"}


async def test_pods_that_are_counted_one_by_one_keep_no_others() -> None:
    """As Kueue counts those of a Deployment."""
    plane = Plane(0)
    work = plane.begin("deployment", "team-a")
    owner = OwnerReference(kind="Pod", name="counted", uid="uid-counted", controller=True)
    meta = ObjectMeta(name="of-it", namespace="team-a", uid="uid-of-it", owner_references=(owner,))
    plane.write("Workload", Workload(metadata=meta, status=_status("QuotaReserved")))
    plane.write("Pod", _pod("counted", "team-a", tuple(work.chain)))
    for _ in range(int((PATIENCE + max(GRACES)) / PERIOD) + 2):
        plane.hear(all_of_it=True)
        await plane.backstop.look()
        plane.now += PERIOD
    assert {*plane.deleted} == work.pods


async def test_a_new_leader_counts_anew() -> None:
    plane = Plane(0)
    plane.begin("bare", "team-a")
    for leads in (True, True, True, True, True, False, True, True, True):
        plane.leads = leads
        plane.hear(all_of_it=True)
        await plane.backstop.look()
        plane.now += 10.0
    assert not plane.deleted
