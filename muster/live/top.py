"""What a cluster does now: its queues by quota, its gangs, and the nodes that were bought for them.

Made of the objects that a `Mirror` keeps current, by the readers that a snapshot, `muster why` and
`muster what-if` use. A kind that may not be listed leaves its part out and is named.

Each list is watched in a thread of its own. One that may not be read, or whose kind is not installed, is
named in `unreadable`. One whose watch is cut, or asks for a version that the server no longer has, is begun
anew.
"""

import re
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from muster.columns import draw_bar, format_columns
from muster.kubernetes.client import Client, inside
from muster.kubernetes.errors import ApiError, UnreachableError
from muster.live.fields import Json, items, mapping, moment, text
from muster.live.snapshot import kai, kueue
from muster.live.snapshot.kueue import read_tree
from muster.live.why.format import format_headline, format_reason, job_label
from muster.live.why.job_status import POD_GROUPS, JobStatus, parse_kai_status, parse_status, pods_by_group
from muster.live.why.pods import PodIndex
from muster.model import names
from muster.model.kueue import FlavorQuota
from muster.model.quantities import many
from muster.model.waiting import clock, rounded
from muster.model.work import PARTS
from muster.printable import sanitize_line

_RETRY: Final = 15.0
# Changes come in bursts, of which one picture is enough; ages are shown, so it is drawn again without one.
_BURST: Final = 1.0
_LONGEST: Final = 10.0


class Changes:
    """Notices that something in the lists has changed. `paths`: the lists by the names that the caller has
    for them, such as `/api/v1/nodes`.
    """

    # A list's version is all that a watch needs to begin.
    _query = "?limit=1"

    def __init__(self, client: Client, paths: Mapping[str, str]) -> None:
        self._client, self._paths = client, dict(paths)
        self._versions: dict[str, str] = {}
        self._changed = threading.Event()
        self.unreadable: dict[str, str] = {}

    def follow(self) -> None:
        """Watch, until the process ends."""
        for name in self._paths:
            threading.Thread(target=self._follow, args=(name,), daemon=True).start()

    def wait(self) -> None:
        """Until something has changed, or it is time to show ages again."""
        if self._changed.wait(_LONGEST):
            time.sleep(_BURST)
        self._changed.clear()

    def _read(self, name: str) -> None:
        """The version of a list."""
        try:
            listed = self._client.get(f"{self._paths[name]}{self._query}")
        except ApiError as error:
            if error.status not in (403, 404):
                raise
            why = "may not be listed" if error.status == 403 else "are not served"
            listed, self.unreadable[name] = {}, f"{name} {why}"
        else:
            self.unreadable.pop(name, None)
        self._keep(name, listed)
        self._versions[name] = text(mapping(listed, "metadata"), "resourceVersion")

    def _keep(self, name: str, listed: Json) -> None:
        """What to keep of a list."""

    def _change(self, name: str, kind: str, changed: Any) -> None:
        """What to do with an object that was ADDED, MODIFIED or DELETED."""

    def _follow(self, name: str) -> None:
        while True:
            try:
                if not self._versions.get(name):
                    self._read(name)
                    self._changed.set()
                if version := self._versions.get(name):
                    self._watch(name, version)
            except (ApiError, UnreachableError, ValueError) as error:  # ValueError: a line that was cut
                self._versions[name] = ""
                self.unreadable[name] = f"{name}: {sanitize_line(str(error))}"
            if not self._versions.get(name):
                time.sleep(_RETRY)

    def _watch(self, name: str, version: str) -> None:
        for kind, changed in self._client.watch(self._paths[name], version):
            if kind == "ERROR":  # The version is older than what the server keeps.
                self._versions[name] = ""
                return
            self._versions[name] = text(changed, "metadata", "resourceVersion")
            if kind != "BOOKMARK":
                self._change(name, kind, changed)
                self._changed.set()


class Mirror(Changes):
    """Keeps the objects of the lists current. A list that may not be read is empty."""

    _query = ""

    def __init__(self, client: Client, paths: Mapping[str, str]) -> None:
        super().__init__(client, paths)
        self._objects: dict[str, dict[str, Json]] = {name: {} for name in paths}

    def read(self) -> None:
        """Read every list. MusterError where the server does not respond, or not with a list."""
        for name in self._paths:
            self._read(name)

    def of(self, name: str) -> list[Json]:
        """The objects of a list, by namespace and name."""
        objects = self._objects[name].copy()
        return [objects[key] for key in sorted(objects)]

    def _keep(self, name: str, listed: Json) -> None:
        self._objects[name] = {_key(each): each for each in items(listed, "items")}

    def _change(self, name: str, kind: str, changed: Any) -> None:
        if kind == "DELETED":
            self._objects[name].pop(_key(changed), None)
        else:
            self._objects[name][_key(changed)] = changed


def _key(body: Json) -> str:
    return f"{text(body, 'metadata', 'namespace')}/{text(body, 'metadata', 'name')}"


_KUEUE: Final = f"/apis/{names.KUEUE_API_VERSION}"
_OF_KUEUE: Final = ("clusterqueues", "cohorts", "localqueues", "workloads")
_OF_KAI: Final = ("queues", "podgroups")
# As the gang-admission controller writes it into its check: muster/controller/gangs/progress.py.
_DEADLINE: Final = re.compile(r"releases at ([\d: -]+UTC)")
# By which a node is known where Muster did not label it: of GKE, EKS and Karpenter.
_POOL_LABELS: Final = (
    names.POOL_LABEL,
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "karpenter.sh/nodepool",
)


def paths(namespace: str = "") -> dict[str, str]:
    """The lists to read: queues and nodes of the cluster, work of one namespace or of all."""
    work = inside(namespace)
    return {
        "queues": f"/apis/{names.KAI_QUEUE_API_VERSION}/queues",
        "podgroups": f"{POD_GROUPS}{work}/podgroups",
        "clusterqueues": f"{_KUEUE}/clusterqueues",
        "cohorts": f"{_KUEUE}/cohorts",
        "localqueues": f"{_KUEUE}{work}/localqueues",
        "workloads": f"{_KUEUE}{work}/workloads",
        "pods": f"/api/v1{work}/pods",
        "nodes": "/api/v1/nodes",
        **{each.resource: f"{each.api}{work}/{each.resource}" for each in PARTS},
    }


@dataclass(frozen=True, slots=True)
class FlavorUse:
    """Of one flavor of a queue, in devices, or in CPUs where it has none. `quota`: None without a limit."""

    flavor: str
    resource: str
    quota: float | None
    used: float

    @property
    def borrowed(self) -> float:
        return 0 if self.quota is None else max(self.used - self.quota, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueUse:
    """`oldest`: since when the first of the waiting jobs waits."""

    name: str
    cohort: str
    flavors: tuple[FlavorUse, ...]
    waiting: int
    oldest: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """A job that has not finished. `deadline`: when it releases what it waits for, or tries again."""

    job: str
    queue: str
    step: str
    deadline: str
    reason: str
    created: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class BoughtNode:
    """`jobs`: those with pods on it. `awaited_by`: where there are none, gangs that wait for its pool."""

    name: str
    pool: str
    devices: int
    created: datetime
    is_ready: bool
    jobs: tuple[str, ...]
    awaited_by: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Top:
    """`unreadable`: what may not be listed, or does not respond."""

    taken: datetime
    queues: tuple[QueueUse, ...]
    gangs: tuple[Gang, ...]
    nodes: tuple[BoughtNode, ...]
    unreadable: tuple[str, ...]


Job = tuple[JobStatus, Json]
"""What `muster why` says of a job, and the Workload or PodGroup that it is read from."""


def to_top(mirror: Mirror, *, now: datetime) -> Top:
    """What the lists of `paths` hold. ValueError where a quota is no quantity."""
    is_kai = "clusterqueues" in mirror.unreadable and "queues" not in mirror.unreadable
    index = PodIndex(mirror.of("pods"), [part for kind in PARTS for part in mirror.of(kind.resource)])
    jobs = list(_jobs_of_kai(mirror) if is_kai else _jobs(mirror, index))
    jobs.sort(key=lambda job: (job[0].is_running, text(job[1], "metadata", "creationTimestamp")))
    # Most clusters serve but some of the kinds of work, and one of the two schedulers.
    optional = {*(kind.resource for kind in PARTS), *(_OF_KUEUE if is_kai else _OF_KAI)}
    return Top(
        taken=now,
        queues=tuple((_queues_of_kai if is_kai else _queues)(mirror, jobs)),
        gangs=tuple(_gang(*job) for job in jobs),
        nodes=tuple(_nodes(mirror.of("nodes"), jobs, index)),
        unreadable=tuple(why for name, why in sorted(mirror.unreadable.items()) if name not in optional),
    )


def _jobs(mirror: Mirror, index: PodIndex) -> Iterator[Job]:
    pods = None if "pods" in mirror.unreadable else index
    local = map(kueue.to_local_queue, mirror.of("localqueues"))
    queues = {(each.namespace, each.name): each.cluster_queue for each in local}
    for body in mirror.of("workloads"):
        status = parse_status(body, pods)
        if (workload := status.workload) is not None:
            queue = status.cluster_queue or queues.get((workload.namespace, workload.queue), "")
            yield replace(status, cluster_queue=queue), body


def _jobs_of_kai(mirror: Mirror) -> Iterator[Job]:
    pods = pods_by_group(mirror.of("pods"))
    return ((parse_kai_status(each, pods), each) for each in mirror.of("podgroups"))


def _is_in_line(status: JobStatus) -> bool:
    """Whether it waits for its queue, and has nothing yet; with KAI, whether its pods lack nodes."""
    if status.workload is None:
        return status.pods is None or not status.pods.is_placed
    return not status.workload.is_holding


def _created(body: Json) -> datetime:
    return moment(body, "metadata", "creationTimestamp") or datetime.fromtimestamp(0, UTC)


def _in_line(jobs: Iterable[Job]) -> defaultdict[str, list[datetime]]:
    """Since when jobs wait, by queue."""
    waiting = defaultdict(list)
    for status, body in jobs:
        if _is_in_line(status):
            waiting[status.cluster_queue].append(_created(body))
    return waiting


def _queues(mirror: Mirror, jobs: Sequence[Job]) -> Iterator[QueueUse]:
    kinds = (("clusterqueues", "ClusterQueue"), ("cohorts", "Cohort"))
    tree = read_tree({**each, "kind": kind} for name, kind in kinds for each in mirror.of(name))
    used = {
        (queue.name, use.flavor, use.resource): use.amount
        for queue in map(kueue.to_queue, mirror.of("clusterqueues"))
        for use in queue.usage
    }
    waiting = _in_line(jobs)
    for node in sorted(tree.nodes.values(), key=lambda node: (node.department, node.name)):
        if node.is_team:
            flavors = [flavor for group in node.groups for flavor in group.flavors]
            yield QueueUse(
                name=node.name,
                cohort=node.department,
                flavors=tuple(_flavor_use(node.name, flavor, used) for flavor in flavors),
                waiting=len(waiting[node.name]),
                oldest=min(waiting[node.name], default=None),
            )


def _flavor_use(queue: str, flavor: FlavorQuota, used: Mapping[tuple[str, str, str], int]) -> FlavorUse:
    quotas = {each.name: each.nominal.value for each in flavor.resources}
    devices = (name for name in quotas if name.startswith(names.DEVICE_PREFIXES))
    resource = next(devices, "cpu" if "cpu" in quotas else next(iter(quotas), ""))
    amount = used.get((queue, flavor.name, resource), 0) / (1000 if resource == "cpu" else 1)
    return FlavorUse(flavor.name, resource, float(quotas.get(resource, 0)), amount)


def _queues_of_kai(mirror: Mirror, jobs: Sequence[Job]) -> Iterator[QueueUse]:
    """KAI counts the GPUs of a queue without naming a pool. A quota of -1 has no limit."""
    waiting = _in_line(jobs)
    for body in mirror.of("queues"):
        queue, quota = kai.to_queue(body), mapping(body, "spec", "resources", "gpu").get("quota")
        used = sum(each.amount for each in queue.usage if each.resource == names.GPU_RESOURCE)
        amount = float(quota) if isinstance(quota, int | float) else 0.0
        yield QueueUse(
            name=queue.name,
            cohort=queue.parent,
            flavors=(FlavorUse("GPU", names.GPU_RESOURCE, None if amount < 0 else amount, used),),
            waiting=len(waiting[queue.name]),
            oldest=min(waiting[queue.name], default=None),
        )


def _gang(status: JobStatus, body: Json) -> Gang:
    return Gang(
        job=job_label(status),
        queue=status.cluster_queue,
        step=format_headline(status),
        deadline=_deadline(status),
        reason=format_reason(status),
        created=_created(body),
    )


def _deadline(status: JobStatus) -> str:
    if not status.is_running:
        for message in (status.outside, *(check.message for check in status.checks)):
            if found := _DEADLINE.search(message):
                return f"until {found[1]}"
    return f"again at {clock(status.retry_at)}" if status.retry_at is not None and _is_in_line(status) else ""


def _nodes(listed: Sequence[Json], of_jobs: Sequence[Job], index: PodIndex) -> Iterator[BoughtNode]:
    """Nodes with devices, and those of a pool that is not the system's."""
    jobs: defaultdict[str, dict[str, None]] = defaultdict(dict)
    awaited: defaultdict[str, list[str]] = defaultdict(list)
    for status, body in of_jobs:
        for pod in index.of(body):
            jobs[text(pod, "spec", "nodeName")][job_label(status)] = None
        if status.workload is not None and status.workload.is_holding and not status.is_running:
            for pool in {flavor for each in status.workload.pod_sets for flavor in each.flavors.values()}:
                awaited[pool].append(job_label(status))
    for body in listed:
        node = kai.to_node(body)
        pool = next((node.labels[each] for each in _POOL_LABELS if each in node.labels), "")
        devices = sum(amount for name, amount in node.room.items() if name in names.DEVICE_RESOURCES)
        if devices or (names.POOL_LABEL in node.labels and pool != names.SYSTEM_POOL):
            running = tuple(jobs.get(node.name, ()))
            yield BoughtNode(
                name=node.name,
                pool=pool,
                devices=devices,
                created=_created(body),
                is_ready=node.is_ready,
                jobs=running,
                awaited_by=() if running else tuple(awaited.get(pool, ())),
            )


# As text


_BAR: Final = 10


def format_top(top: Top, *, columns: int | None = None) -> str:
    """Three tables. Every line ends with a newline. A terminal has so many `columns`, and gets bars."""
    has_bars = columns is not None
    queue = ("Queue", "Cohort", "Flavor", "Quota", "Used", "Borrowed", "Waiting", "Oldest", "In use")
    parts = (
        (queue[: None if has_bars else -1], ("Cohort", "Oldest"), _queue_rows(top, has_bars=has_bars)),
        (("Job", "Queue", "Step", "Since", "Deadline", "Reason"), ("Queue", "Deadline"), _gang_rows(top)),
        (("Node", "Pool", "Devices", "Since", "For"), (), _node_rows(top)),
    )
    right = ("Quota", "Used", "Borrowed", "Waiting", "Oldest", "Devices", "Since")
    waiting = sum(each.waiting for each in top.queues)
    counts = f"{many(len(top.gangs), 'job')}, {waiting} waiting in a queue, {many(len(top.nodes), 'node')}"
    lines = [f"{clock(top.taken)}: {counts}", *(f"{why}." for why in top.unreadable)]
    for head, minor, rows in parts:
        listed = list(rows)
        lines += ["", *format_columns(head, listed, right, room=columns, minor=minor)] if listed else []
    return "".join(f"{line}\n" for line in lines)


def _queue_rows(top: Top, *, has_bars: bool) -> Iterator[tuple[str, ...]]:
    scales: dict[str, float] = {}
    for use in (use for queue in top.queues for use in queue.flavors):
        scales[use.flavor] = max(scales.get(use.flavor, 1), use.quota or 0, use.used)
    for queue in top.queues:
        waiting = (str(queue.waiting or ""), _age(queue.oldest, top.taken))
        shown = [each for each in queue.flavors if each.quota != 0 or each.used] or [FlavorUse("", "", 0, 0)]
        for index, use in enumerate(shown):
            of_queue = (queue.name, queue.cohort) if index == 0 else ("", "")
            figures = (
                "no limit" if use.quota is None else f"{use.quota:g}",
                f"{use.used:g}",
                f"{use.borrowed:g}" if use.borrowed else "",
            )
            unit = f"{use.flavor} CPU" if use.resource == "cpu" else use.flavor
            yield (
                *of_queue,
                unit,
                *(figures if use.flavor else ("", "", "")),
                *(waiting if index == 0 else ("", "")),
                *((_bar(use, scales.get(use.flavor, 1)),) if has_bars else ()),
            )


def _bar(use: FlavorUse, scale: float) -> str:
    """What is used of the quota is full, what is borrowed shaded, and what is free dotted."""
    ends = (use.used - use.borrowed, use.used, max(use.used, use.quota or 0))
    return "".join(draw_bar(ends, "█▒·", scale=scale, length=_BAR))


def _gang_rows(top: Top) -> Iterator[tuple[str, ...]]:
    for gang in top.gangs:
        yield gang.job, gang.queue, gang.step, _age(gang.created, top.taken), gang.deadline, gang.reason


def _node_rows(top: Top) -> Iterator[tuple[str, ...]]:
    for node in top.nodes:
        state = "" if node.is_ready else "not ready, "
        awaited = f"awaited by {', '.join(node.awaited_by)}" if node.awaited_by else "no job"
        jobs = state + (", ".join(node.jobs) or awaited)
        yield node.name, node.pool, str(node.devices or ""), _age(node.created, top.taken), jobs


def _age(since: datetime | None, now: datetime) -> str:
    return "" if since is None else rounded(now - since)
