"""What a cluster does now: its queues by quota, its gangs, and the nodes that were bought for them.

Made of the objects that a `Mirror` keeps current, by the readers that a snapshot, `muster why` and
`muster what-if` use. A kind that may not be listed leaves its part out and is named.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Final

from muster.live.cluster.mirror import Mirror
from muster.live.fields import Json, is_true, moment, text
from muster.live.kueue_tree import read_tree
from muster.live.snapshot import Snapshot, State, kai, kueue
from muster.live.why.format import format_columns, format_headline, format_reason, job_label
from muster.live.why.job_status import JobStatus, parse_status
from muster.live.why.pods import PodIndex
from muster.model import names
from muster.model.kueue import FlavorQuota
from muster.model.quantities import many
from muster.model.stack import Scheduler
from muster.model.waiting import clock, rounded
from muster.model.work import PARTS

_KUEUE: Final = f"/apis/{names.KUEUE_API_VERSION}"
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
    inside = f"/namespaces/{namespace}" if namespace else ""
    return {
        "clusterqueues": f"{_KUEUE}/clusterqueues",
        "cohorts": f"{_KUEUE}/cohorts",
        "localqueues": f"{_KUEUE}{inside}/localqueues",
        "workloads": f"{_KUEUE}{inside}/workloads",
        "pods": f"/api/v1{inside}/pods",
        "nodes": "/api/v1/nodes",
        **{each.resource: f"{each.api}{inside}/{each.resource}" for each in PARTS},
    }


@dataclass(frozen=True, slots=True)
class FlavorUse:
    """Of one flavor of a queue, in devices, or in CPUs where it has none."""

    flavor: str
    resource: str
    quota: float
    used: float

    @property
    def borrowed(self) -> float:
        return max(self.used - self.quota, 0)


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
    created: datetime | None
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


def to_top(mirror: Mirror, *, now: datetime) -> Top:
    """What the lists of `paths` hold. ValueError where a quota is no quantity."""
    workloads = [each for each in mirror.of("workloads") if not is_true(each, "Finished")]
    index = PodIndex(mirror.of("pods"), [part for kind in PARTS for part in mirror.of(kind.resource)])
    pods = None if "pods" in mirror.unreadable else index
    statuses = [(parse_status(each, pods), each) for each in workloads]
    statuses.sort(key=lambda each: (_is_running(each[0]), text(each[1], "metadata", "creationTimestamp")))
    snapshot = Snapshot(
        taken=now,
        scheduler=Scheduler.KUEUE,
        queues=tuple(map(kueue.to_queue, mirror.of("clusterqueues"))),
        local_queues=tuple(map(kueue.to_local_queue, mirror.of("localqueues"))),
        workloads=tuple(status.workload for status, _ in statuses if status.workload is not None),
    )
    parts = {kind.resource for kind in PARTS}  # Most clusters serve but some of them.
    return Top(
        taken=now,
        queues=tuple(_queues(mirror, snapshot)),
        gangs=tuple(_gangs(statuses, snapshot)),
        nodes=tuple(_nodes(mirror.of("nodes"), statuses, index)),
        unreadable=tuple(why for name, why in sorted(mirror.unreadable.items()) if name not in parts),
    )


def _is_running(status: JobStatus) -> bool:
    is_admitted = status.workload is not None and status.workload.state is State.ADMITTED
    return is_admitted and (status.pods is None or status.pods.is_running)


def _queue_names(snapshot: Snapshot) -> dict[tuple[str, str], str]:
    """LocalQueue -> ClusterQueue."""
    return {(each.namespace, each.name): each.cluster_queue for each in snapshot.local_queues}


def _queues(mirror: Mirror, snapshot: Snapshot) -> Iterator[QueueUse]:
    kinds = (("clusterqueues", "ClusterQueue"), ("cohorts", "Cohort"))
    tree = read_tree({**each, "kind": kind} for name, kind in kinds for each in mirror.of(name))
    waiting, named = defaultdict(list), _queue_names(snapshot)
    for each in snapshot.workloads:
        if not each.is_holding:
            waiting[named.get((each.namespace, each.queue), "")].append(each.created)
    for node in sorted(tree.nodes.values(), key=lambda node: (node.department, node.name)):
        if node.is_team:
            yield QueueUse(
                name=node.name,
                cohort=node.department,
                flavors=tuple(
                    _flavor_use(node.name, flavor, snapshot)
                    for group in node.groups
                    for flavor in group.flavors
                ),
                waiting=len(waiting[node.name]),
                oldest=min(waiting[node.name], default=None),
            )


def _flavor_use(queue: str, flavor: FlavorQuota, snapshot: Snapshot) -> FlavorUse:
    quotas = {each.name: each.nominal.value for each in flavor.resources}
    devices = (name for name in quotas if name.startswith(names.DEVICE_PREFIXES))
    resource = next(devices, "cpu" if "cpu" in quotas else next(iter(quotas), ""))
    used = Fraction(snapshot.used(queue, flavor.name, resource), 1000 if resource == "cpu" else 1)
    return FlavorUse(flavor.name, resource, float(quotas.get(resource, 0)), float(used))


def _gangs(statuses: Sequence[tuple[JobStatus, Json]], snapshot: Snapshot) -> Iterator[Gang]:
    named = _queue_names(snapshot)
    for status, _ in statuses:
        if (workload := status.workload) is not None:
            yield Gang(
                job=job_label(status),
                queue=workload.cluster_queue or named.get((workload.namespace, workload.queue), ""),
                step=format_headline(status),
                deadline=_deadline(status),
                reason=format_reason(status),
                created=workload.created,
            )


def _deadline(status: JobStatus) -> str:
    if status.workload is not None and status.workload.state is State.RESERVED:
        for check in status.checks:
            if found := _DEADLINE.search(check.message):
                return f"until {found[1]}"
    is_released = status.workload is not None and not status.workload.is_holding
    return f"again at {clock(status.retry_at)}" if status.retry_at is not None and is_released else ""


def _nodes(
    listed: Sequence[Json], statuses: Sequence[tuple[JobStatus, Json]], index: PodIndex
) -> Iterator[BoughtNode]:
    """Nodes with devices, and those of a pool that is not the system's."""
    jobs: defaultdict[str, dict[str, None]] = defaultdict(dict)
    awaited: defaultdict[str, list[str]] = defaultdict(list)
    for status, workload in statuses:
        for pod in index.of(workload):
            jobs[text(pod, "spec", "nodeName")][job_label(status)] = None
        if status.workload is not None and status.workload.is_holding and not _is_running(status):
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
                created=moment(body, "metadata", "creationTimestamp"),
                is_ready=node.is_ready,
                jobs=running,
                awaited_by=() if running else tuple(awaited.get(pool, ())),
            )


# As text


def format_top(top: Top) -> str:
    """Three tables. Every line ends with a newline; a terminal cuts what is too wide."""
    parts = (
        (("Queue", "Cohort", "Flavor", "Quota", "Used", "Borrowed", "Waiting", "Oldest"), _queue_rows(top)),
        (("Job", "Queue", "Step", "Since", "Deadline", "Reason"), _gang_rows(top)),
        (("Node", "Pool", "Devices", "Since", "For"), _node_rows(top)),
    )
    right = ("Quota", "Used", "Borrowed", "Waiting", "Oldest", "Devices", "Since")
    waiting = sum(each.waiting for each in top.queues)
    counts = f"{many(len(top.gangs), 'job')}, {waiting} waiting for quota, {many(len(top.nodes), 'node')}"
    lines = [f"{clock(top.taken)}: {counts}", *(f"{why}." for why in top.unreadable)]
    for head, rows in parts:
        listed = list(rows)
        lines += ["", *format_columns(head, listed, right)] if listed else []
    return "".join(f"{line}\n" for line in lines)


def _queue_rows(top: Top) -> Iterator[tuple[str, ...]]:
    for queue in top.queues:
        waiting = (str(queue.waiting or ""), _age(queue.oldest, top.taken))
        shown = [each for each in queue.flavors if each.quota or each.used] or [FlavorUse("", "", 0, 0)]
        for index, use in enumerate(shown):
            of_queue = (queue.name, queue.cohort) if index == 0 else ("", "")
            figures = (f"{use.quota:g}", f"{use.used:g}", f"{use.borrowed:g}" if use.borrowed else "")
            unit = f"{use.flavor} CPU" if use.resource == "cpu" else use.flavor
            yield (
                *of_queue,
                unit,
                *(figures if use.flavor else ("", "", "")),
                *(waiting if index == 0 else ("", "")),
            )


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
