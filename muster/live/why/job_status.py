"""Reads the status of one job from the cluster.

It consists of the Workload with its conditions and admission checks, its position in the queue, its
ProvisioningRequests and its latest Events. A job without a Workload is distinguished from a job that does not
exist.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import quote

from muster.kubernetes.client import Client, inside
from muster.kubernetes.errors import ApiError, UnreachableError
from muster.live.fields import Json, find_condition, is_true, items, mapping, moment, number, text, texts
from muster.live.snapshot import State, Workload, kai, kueue
from muster.live.why.pods import (
    HIDDEN,
    PodIndex,
    PodStatus,
    deployment_of,
    fetch_pods,
    fetch_stock,
    pod_status,
    with_logs,
)
from muster.model import names, waiting
from muster.model.quantities import many
from muster.model.work import QUEUED
from muster.printable import sanitize_line

# Why a ClusterQueue starts no job at all: it is inactive, or one of its AdmissionChecks is.
# Kueue 0.19 keeps a queue active whose check is being deleted.
# Read from their Active conditions. Someone who may not read them gets no reason.

_KUEUE: Final = f"/apis/{names.KUEUE_API_VERSION}"
_MAX_MESSAGE: Final = 1000
# Which group of a LeaderWorkerSet a Workload is of (pkg/controller/constants of Kueue 0.19.2).
_GROUP_INDEX: Final = "kueue.x-k8s.io/component-workload-index"


def _fetch_inactivity(api: Client, cluster_queue: str) -> tuple[str, ...]:
    """What keeps a job that has not started from quota, or would after its release: one line for the queue
    and one for each of its checks that is inactive.
    """
    queue = _find(api, "clusterqueues", cluster_queue) if cluster_queue else None
    if queue is None:
        return ()
    checks = [
        text(check, "name") for check in items(queue, "spec", "admissionChecksStrategy", "admissionChecks")
    ]
    found = [("ClusterQueue", cluster_queue, queue)]
    found += [
        ("AdmissionCheck", name, each) for name in checks if (each := _find(api, "admissionchecks", name))
    ]
    return tuple(
        sanitize_line(f"{kind} {name} is inactive: {reason}", longest=_MAX_MESSAGE)
        for kind, name, each in found
        if (reason := inactive_reason(each)) is not None
    )


def inactive_reason(found: Json) -> str | None:
    """The message of a false Active condition."""
    condition = find_condition(found, "Active")
    return text(condition, "message") if text(condition, "status") == "False" else None


def _find(api: Client, plural: str, name: str) -> Json | None:
    return mapping(api.find(f"{_KUEUE}/{plural}/{quote(name, safe='')}", absent=HIDDEN)) or None


# The Workloads that are ahead of a Workload in its queue.
# The order is that of Kueue 0.19.2: by priority, then by the time since which the Workload is queued. That
# time is reset when an admission check or the pods-ready timeout requeues it (pkg/workload,
# GetQueueOrderTimestamp). Kueue's visibility API is preferred where it is served.

_REQUEUED: Final = ("PodsReadyTimeout", "AdmissionCheck")
_RECLAIMED: Final = "InCohortReclaimWhileBorrowing"


def queued_before(mine: Workload, others: Iterable[Workload]) -> tuple[Workload, ...]:
    """The pending ones of `others` that Kueue tries first, in their order."""
    place = _order_key(mine)
    pending = (each for each in others if each.state is State.PENDING)
    return tuple(sorted((each for each in pending if _order_key(each) < place), key=_order_key))


def _order_key(workload: Workload) -> tuple[int, datetime, str, str]:
    return (-workload.priority, _waits_since(workload), workload.namespace, workload.name)


def _waits_since(workload: Workload) -> datetime:
    for each in workload.conditions:
        if each.status != "True" or each.since is None:
            continue
        if each.type == "Evicted" and each.reason in _REQUEUED:
            return each.since
        if each.type == "Preempted" and each.reason == _RECLAIMED:
            return each.since + timedelta(milliseconds=1)
    return workload.created


_VISIBILITY: Final = "/apis/visibility.kueue.x-k8s.io/v1beta2"
_PROVISIONING: Final = f"/apis/{names.PROVISIONING_API_VERSION}"
_MAX_EVENTS: Final = 5


@dataclass(frozen=True, slots=True)
class StatusEntry:
    """A condition, an admission check, a ProvisioningRequest or an Event: its state and its message."""

    name: str
    state: str
    message: str
    since: datetime | None


@dataclass(frozen=True, slots=True)
class QueuePosition:
    """The position in the queue, from 1. `ahead` are the last few Workloads before it."""

    position: int
    of: int
    ahead: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """`workload` is None for a job that is not queued; `unqueued` is the reason. `outside` is the
    controller's message about a job that waits outside the quota, or that it refused. `note`: what the
    cluster's recorder has written about its start. `budget`: what it has written about a budget that keeps
    the team from starting more. `idle`: since when its GPUs have done nothing, and what follows. `result`: of
    a finished job, such as `Failed`. `pods`: of a job that was admitted; None where they may not be listed.
    `stock`: what the local cluster's cloud has of the pools that it waits for.
    """

    namespace: str
    name: str
    workload: Workload | None
    unqueued: str = ""
    cluster_queue: str = ""
    queue_inactivity: tuple[str, ...] = ()
    is_finished: bool = False
    result: str = ""
    pods: PodStatus | None = None
    conditions: tuple[StatusEntry, ...] = ()
    checks: tuple[StatusEntry, ...] = ()
    requests: tuple[StatusEntry, ...] = ()
    line: QueuePosition | None = None
    retry_at: datetime | None = None
    outside: str = ""
    note: str = ""
    budget: str = ""
    idle: str = ""
    is_stopped: bool = False
    stock: tuple[str, ...] = ()
    events: tuple[StatusEntry, ...] = ()

    @property
    def is_running(self) -> bool:
        """Whether it has all that it waited for, as far as its pods may be listed."""
        if self.pods is not None:
            return self.pods.is_running
        return self.workload is not None and self.workload.state is State.ADMITTED

    @property
    def has_failed(self) -> bool:
        """Whether it finished, and not well."""
        return self.is_finished and self.result not in ("Succeeded", "JobFinished")

    def condition(self, name: str) -> StatusEntry | None:
        return next((each for each in self.conditions if each.name == name), None)


def fetch_status(api: Client, namespace: str, name: str) -> JobStatus | None:
    """The status of a job; None when neither a job nor a Workload has this name."""
    listed = _fetch_workloads(api, namespace)
    if listed is None:
        status = _fetch_kai_status(api, namespace, name)
        return None if status is None else _with_stock(api, status)
    found = _workloads_of(api, namespace, name, listed)
    if not found:
        return _fetch_unqueued(api, namespace, name)
    return _with_stock(api, _fetch_job_status(api, current(found)))


def _with_stock(api: Client, status: JobStatus) -> JobStatus:
    """Of a job that has quota, or was refused capacity, and does not run."""
    workload = status.workload
    is_in_line = workload is not None and not workload.is_holding and not status.outside
    if status.is_finished or status.is_running or status.is_stopped or is_in_line:
        return status
    entries = (*status.checks, *status.requests)
    messages = " ".join((status.outside, *(each.message for each in entries)))
    sets = workload.pod_sets if workload is not None else ()
    flavors = {flavor for each in sets for flavor in each.flavors.values()}
    return replace(status, stock=fetch_stock(api, flavors, messages))


def current(workloads: Sequence[Json]) -> Json:
    """The Workload that is shown of a job. Of groups or pods admitted one by one it is the first that
    waits; else the newest, because an elastic job leaves older slices behind.
    """
    waiting = [
        (int(index or 0), _created(each), each)
        for each in workloads
        if ((index := _group_index(each)) or _is_of_a_pod(each)) and not is_true(each, "Admitted")
    ]
    if waiting:
        return min(waiting, key=lambda each: each[:2])[2]
    return max(workloads, key=_created)


def _group_index(workload: Json) -> str:
    index = texts(workload, "metadata", "annotations").get(_GROUP_INDEX, "")
    return index if index.isdecimal() else ""


def _is_of_a_pod(workload: Json) -> bool:
    return [text(each, "kind") for each in items(workload, "metadata", "ownerReferences")] == ["Pod"]


def _workloads_of(api: Client, namespace: str, name: str, listed: Sequence[Json]) -> list[Json]:
    """Those of the job of this name. Of a Deployment each pod has its own."""
    found = [each for each in listed if _is_of(each, name)]
    of_pods = [each for each in listed if _is_of_a_pod(each)]
    if found or not of_pods:
        return found
    pods = api.find_all(f"/api/v1{inside(namespace)}/pods", mapping, absent=HIDDEN) or ()
    own = {_name(each) for each in pods if deployment_of(each) == name}
    return [each for each in of_pods if text(items(each, "metadata", "ownerReferences")[0], "name") in own]


def fetch_job_pods(api: Client, namespace: str, name: str) -> list[Json] | None:
    """The pods of a job, queued or not; None where there is no job of this name."""
    found = _workloads_of(api, namespace, name, _fetch_workloads(api, namespace) or ())
    owners = [owner for each in found for owner in items(each, "metadata", "ownerReferences")]
    owners = owners or [mapping(job, "metadata") for _, job in _fetch_jobs(api, namespace, name)]
    if not owners:
        return None
    return fetch_pods(api, namespace).of({"metadata": {"ownerReferences": list(owners)}})


def _fetch_workloads(api: Client, namespace: str) -> list[Json] | None:
    """Those of a namespace, or of all where it is empty; None where the cluster has none, as with KAI."""
    return api.find_all(f"{_KUEUE}{inside(namespace)}/workloads", mapping)


def _is_of(workload: Json, name: str) -> bool:
    owners = (text(owner, "name") for owner in items(workload, "metadata", "ownerReferences"))
    return name == _name(workload) or name in owners


def _name(found: Json) -> str:
    return text(found, "metadata", "name")


def fetch_waiting(api: Client, namespace: str = "") -> tuple[JobStatus, ...]:
    """Every job of a namespace, or of all, that neither finished nor runs in full, the oldest first."""
    listed = _fetch_workloads(api, namespace)
    found = [each for each in listed or () if not is_true(each, "Finished")]
    pods = _fetch_pods(api, namespace) if any(is_true(each, "Admitted") for each in found) else None
    statuses = (
        _fetch_kai_statuses(api, namespace)
        if listed is None
        else [parse_status(each, pods) for each in sorted(found, key=_created)]
    )
    return tuple(each for each in statuses if not each.is_running)


def parse_status(found: Json, pods: PodIndex | None = None) -> JobStatus:
    """What a Workload and the pods of its job say by themselves."""
    workload, annotations = kueue.to_workload(found), texts(found, "metadata", "annotations")
    since = moment(annotations, names.IDLE_SINCE_ANNOTATION)
    is_started = pods is not None and (is_true(found, "Admitted") or workload is None)
    return JobStatus(
        namespace=text(found, "metadata", "namespace"),
        name=_name(found),
        workload=workload,
        is_finished=workload is None,
        result=text(find_condition(found, "Finished"), "reason") if workload is None else "",
        pods=pod_status(pods.of(found), _pod_count(found)) if pods is not None and is_started else None,
        cluster_queue=workload.cluster_queue if workload else "",
        conditions=tuple(
            _to_entry(each, "type", "status", "lastTransitionTime")
            for each in items(found, "status", "conditions")
        ),
        checks=tuple(
            _to_entry(each, "name", "state", "lastTransitionTime")
            for each in items(found, "status", "admissionChecks")
        ),
        retry_at=moment(annotations, names.RETRY_AT_ANNOTATION)
        or moment(found, "status", "requeueState", "requeueAt"),
        is_stopped=waiting.is_stopped(annotations),
        outside=_outside_quota(annotations),
        note=annotations.get(names.FORECAST_ANNOTATION, ""),
        idle=waiting.idle(since, moment(annotations, names.IDLE_ENDS_ANNOTATION)) if since else "",
    )


def _created(found: Json) -> tuple[str, str]:
    return text(found, "metadata", "creationTimestamp"), _name(found)


def _pod_count(found: Json) -> int:
    """The pods that were admitted, or asked for."""
    return sum(
        each.count if each.assigned is None else each.assigned
        for each in kueue.parse_workload(found).pod_sets
    )


def _fetch_pods(api: Client, namespace: str) -> PodIndex | None:
    try:
        return fetch_pods(api, namespace)
    except ApiError as error:
        if error.status != 403:
            raise
        return None


def _fetch_job_status(api: Client, found: Json) -> JobStatus:
    namespace = text(found, "metadata", "namespace")
    is_started = is_true(found, "Admitted") or is_true(found, "Finished")
    pods = _fetch_pods(api, namespace) if is_started else None
    status = parse_status(found, pods)
    workload, local = status.workload, _fetch_local_queue(api, status.workload)
    queue = workload.cluster_queue if workload else ""
    queue = queue or text(local, "spec", "clusterQueue")
    is_held = text(local, "spec", "stopPolicy") == "Hold"
    budget = texts(local, "metadata", "annotations").get(names.BUDGET_ANNOTATION, "") if is_held else ""
    is_waiting = workload is not None and not workload.is_holding and workload.state != "inactive"
    is_admitted = workload is None or workload.state is State.ADMITTED
    return replace(
        status,
        pods=with_logs(api, namespace, status.pods) if status.pods is not None else None,
        cluster_queue=queue,
        budget=sanitize_line(budget, longest=_MAX_MESSAGE),
        queue_inactivity=() if is_admitted else _fetch_inactivity(api, queue),
        requests=_fetch_requests(api, found),
        line=_fetch_position(api, workload, queue) if workload is not None and is_waiting else None,
        events=_fetch_events(api, found, () if pods is None else pods.of(found)),
    )


def _outside_quota(notes: dict[str, str]) -> str:
    """The message of the admission check, from the annotations of the Workload."""
    why = notes.get(names.REFUSED_ANNOTATION)
    if why is not None:
        return sanitize_line(waiting.refused(why), longest=_MAX_MESSAGE)
    retry_at = moment(notes, names.RETRY_AT_ANNOTATION)
    if retry_at is None:
        return ""
    if waiting.is_stopped(notes):
        return waiting.stopped()
    tries = notes.get(names.TRIES_ANNOTATION, "")
    message = waiting.outside(
        last_failure=notes.get(names.LAST_FAILURE_ANNOTATION, ""),
        tries=int(tries) if tries.isdecimal() and len(tries) < 9 else 0,
        retry_at=retry_at,
    )
    return sanitize_line(message, longest=_MAX_MESSAGE)


def _to_entry(found: Json, name: str, state: str, since: str) -> StatusEntry:
    return StatusEntry(
        sanitize_line(text(found, name)),
        sanitize_line(text(found, state)),
        sanitize_line(text(found, "message"), longest=_MAX_MESSAGE),
        moment(found, since),
    )


def _fetch_local_queue(api: Client, workload: Workload | None) -> Json:
    """That of a Workload without quota; empty without one."""
    if workload is None or workload.cluster_queue:
        return {}
    place = f"{_KUEUE}{inside(workload.namespace)}/localqueues"
    return mapping(api.find(f"{place}/{quote(workload.queue, safe='')}"))


def _fetch_requests(api: Client, found: Json) -> tuple[StatusEntry, ...]:
    """The ProvisioningRequests of the Workload, each with its last true condition."""
    uid, namespace = text(found, "metadata", "uid"), text(found, "metadata", "namespace")
    place = f"{_PROVISIONING}{inside(namespace)}/provisioningrequests"
    listed = api.find_all(place, mapping, absent=HIDDEN) or ()
    own = [each for each in listed if texts(each, "metadata", "labels").get(names.WORKLOAD_UID_LABEL) == uid]
    pools = _fetch_pools(api, found) if own else {}
    return tuple(_to_request_entry(each, pools) for each in sorted(own, key=_name))


def _fetch_pools(api: Client, found: Json) -> dict[str, str]:
    """The pool that each pod template of the namespace selects. Under "" the Workload's own, where it has one
    pool of devices: a member of a team may not read the templates.
    """
    flavors = {
        flavor
        for pod_set in kueue.parse_workload(found).pod_sets
        for resource, flavor in pod_set.flavors.items()
        if resource.startswith(names.DEVICE_PREFIXES)
    }
    pools = {"": next(iter(flavors))} if len(flavors) == 1 else {}
    place = f"/api/v1{inside(text(found, 'metadata', 'namespace'))}/podtemplates"
    templates = api.find_all(place, mapping, absent=HIDDEN) or ()
    selected = {_name(each): texts(each, "template", "spec", "nodeSelector") for each in templates}
    return pools | {name: by[names.POOL_LABEL] for name, by in selected.items() if names.POOL_LABEL in by}


def _to_request_entry(found: Json, pools: dict[str, str]) -> StatusEntry:
    pod_sets = items(found, "spec", "podSets")
    asked = many(sum(number(each, "count") or 0 for each in pod_sets), "pod")
    chosen = (pools.get(text(each, "podTemplateRef", "name"), pools.get("", "")) for each in pod_sets)
    listed = ", ".join(sorted(set(filter(None, chosen))))
    name = sanitize_line(f"{_name(found)} ({asked}{f' in pool {listed}' if listed else ''})")
    true = [each for each in items(found, "status", "conditions") if text(each, "status") == "True"]
    if not true:
        return StatusEntry(name, "requested", "", moment(found, "metadata", "creationTimestamp"))
    return replace(
        _to_entry(true[-1], "type", "status", "lastTransitionTime"), name=name, state=text(true[-1], "type")
    )


def _fetch_position(api: Client, workload: Workload, queue: str) -> QueuePosition | None:
    if not queue:
        return None
    return _position_from_kueue(api, workload, queue) or _position_by_order(api, workload, queue)


def _position_from_kueue(api: Client, workload: Workload, queue: str) -> QueuePosition | None:
    """From Kueue's visibility API, where it is served and readable."""
    try:
        found = api.find(f"{_VISIBILITY}/clusterqueues/{quote(queue, safe='')}/pendingworkloads?limit=100000")
    except (ApiError, UnreachableError):
        return None
    listed = items(found, "items")
    order = [(text(each, "metadata", "namespace"), text(each, "metadata", "name")) for each in listed]
    own = (workload.namespace, workload.name)
    if own not in order:
        return None
    place = number(listed[order.index(own)], "positionInClusterQueue")
    position = (place if place is not None else order.index(own)) + 1
    return QueuePosition(position, len(order), tuple("/".join(each) for each in order[: position - 1][-3:]))


def _position_by_order(api: Client, workload: Workload, queue: str) -> QueuePosition:
    """By Kueue's order, from all pending Workloads of the same ClusterQueue."""
    local = api.list_all(f"{_KUEUE}/localqueues", kueue.to_local_queue)
    same = {(each.namespace, each.name) for each in local if each.cluster_queue == queue}
    others = [
        each
        for each in api.list_all(f"{_KUEUE}/workloads", kueue.to_workload)
        if (each.namespace, each.queue) in same and each.state == "pending"
    ]
    ahead = queued_before(workload, others)
    position = len(ahead) + 1
    # Itself is among the others, unless it has got quota since it was read.
    last = tuple(f"{each.namespace}/{each.name}" for each in ahead[-3:])
    return QueuePosition(position, max(position, len(others)), last)


def _fetch_events(api: Client, found: Json, pods: Iterable[Json]) -> tuple[StatusEntry, ...]:
    """The last Events of the Workload, and the warnings about its pods."""
    place = f"/api/v1{inside(text(found, 'metadata', 'namespace'))}/events"
    uid, of_pods = text(found, "metadata", "uid"), {text(each, "metadata", "uid") for each in pods}
    listed = api.find_all(place, mapping, absent=HIDDEN) or ()
    own = [
        each
        for each in listed
        if (about := text(each, "involvedObject", "uid")) == uid
        or (about in of_pods and text(each, "type") == "Warning")
    ]
    entries = sorted(
        (_to_event_entry(each) for each in own), key=lambda each: each.since.timestamp() if each.since else 0
    )
    return tuple(entries[-_MAX_EVENTS:])


def _to_event_entry(found: Json) -> StatusEntry:
    when = moment(found, "lastTimestamp") or moment(found, "eventTime") or moment(found, "firstTimestamp")
    return StatusEntry(
        sanitize_line(text(found, "reason")),
        sanitize_line(text(found, "type")),
        sanitize_line(text(found, "message"), longest=_MAX_MESSAGE),
        when,
    )


# A job of a cluster with KAI: its PodGroup, its pods, and what the controller writes on the first that waits.

POD_GROUPS: Final = f"/apis/{names.KAI_POD_GROUP_API_VERSION}"
# By controllers of jobs, on their objects.
_RESULTS: Final = {
    "Complete": "Succeeded",
    "Completed": "Succeeded",
    "Succeeded": "Succeeded",
    "Failed": "Failed",
}


def _fetch_kai_statuses(api: Client, namespace: str, name: str = "") -> list[JobStatus]:
    """Of the PodGroups of a namespace, or of all; where a name is given, of that job."""
    groups = api.list_all(f"{POD_GROUPS}{inside(namespace)}/podgroups", mapping)
    own = _workloads_of(api, namespace, name, groups) if name else groups
    listed = api.list_all(f"/api/v1{inside(namespace)}/pods", mapping) if own else []
    pods = pods_by_group(listed)
    return [parse_kai_status(each, pods) for each in sorted(own, key=_created)]


def pods_by_group(pods: Iterable[Json]) -> Mapping[tuple[str, str], list[Json]]:
    """By namespace and name of their PodGroup."""
    groups = defaultdict(list)
    for each in pods:
        name = texts(each, "metadata", "annotations").get(kai.GROUP_ANNOTATION, "")
        groups[text(each, "metadata", "namespace"), name].append(each)
    return groups


def parse_kai_status(found: Json, by_group: Mapping[tuple[str, str], list[Json]]) -> JobStatus:
    """What a PodGroup and its pods say by themselves."""
    group, owner = kai.to_group(found), next(iter(items(found, "metadata", "ownerReferences")), {})
    pods = by_group.get((group.namespace, group.name), [])
    written = (texts(each, "metadata", "annotations").get(names.GANG_STATUS_ANNOTATION) for each in pods)
    counted = pod_status(pods, group.least)
    present = counted.ready + counted.done + counted.waiting
    return JobStatus(
        namespace=group.namespace,
        name=text(owner, "name") or group.name,
        workload=None,
        cluster_queue=group.queue,
        pods=replace(counted, expected=max(group.least, present)),
        outside=sanitize_line(next(filter(None, written), ""), longest=_MAX_MESSAGE),
    )


def _fetch_kai_status(api: Client, namespace: str, name: str) -> JobStatus | None:
    jobs = list(_fetch_jobs(api, namespace, name))
    found = _fetch_kai_statuses(api, namespace, name)
    status = next((each for each in found if not each.is_running), next(iter(found), None))
    if status is None:
        why = "KAI has made no pod group of it yet."
        status = JobStatus(namespace=namespace, name=name, workload=None, unqueued=why) if jobs else None
    if status is not None and status.pods is not None:
        status = replace(status, pods=with_logs(api, namespace, status.pods))
    result = next(filter(None, (_result(job) for _, job in jobs)), "")
    return replace(status, is_finished=True, result=result) if status is not None and result else status


def _result(job: Json) -> str:
    """How a job ended, by its own status; "" while it runs."""
    if text(job, "status", "jobDeploymentStatus") in ("Complete", "Failed"):  # a RayJob
        return "Succeeded" if text(job, "status", "jobStatus") == "SUCCEEDED" else "Failed"
    return next((result for kind, result in _RESULTS.items() if is_true(job, kind)), "")


# A job without a Workload


def _fetch_unqueued(api: Client, namespace: str, name: str) -> JobStatus | None:
    for kind, found in _fetch_jobs(api, namespace, name):
        why = _format_unqueued(kind, found, _fetch_queues(api, namespace))
        return JobStatus(namespace=namespace, name=name, workload=None, unqueued=why)
    return None


def _fetch_jobs(api: Client, namespace: str, name: str) -> Iterator[tuple[str, Json]]:
    """The jobs of this name that may be read, with their kinds."""
    for work in QUEUED:
        path = f"{work.api}{inside(namespace)}/{work.resource}/{quote(name, safe='')}"
        if (found := api.find(path, absent=HIDDEN)) is not None:
            yield work.kind, mapping(found)


def _fetch_queues(api: Client, namespace: str) -> tuple[str, ...]:
    """The LocalQueues of a namespace, which jobs in it may name; empty where they may not be read."""
    path = f"{_KUEUE}{inside(namespace)}/localqueues"
    return tuple(sorted(api.find_all(path, _name, absent=HIDDEN) or ()))


def _format_unqueued(kind: str, found: Json, queues: tuple[str, ...]) -> str:
    queue = texts(found, "metadata", "labels").get(names.QUEUE_LABEL, "")
    allowed = ", ".join(map(sanitize_line, queues)) or names.DEFAULT_LOCAL_QUEUE
    label = f"{names.QUEUE_LABEL}: {'one of ' if len(queues) > 1 else ''}{allowed}"
    used = f"{kind} uses queue {sanitize_line(queue)!r}"
    if queue and queues and queue not in queues:
        return f"{used}, which this namespace does not have. Fix: set the label {label}."
    if queue:
        return f"{used}, and Kueue has not created a Workload for it yet."
    owner = next(iter(items(found, "metadata", "ownerReferences")), None)
    if owner is not None:
        made_by = f"{sanitize_line(text(owner, 'kind'))} {sanitize_line(text(owner, 'name'))}"
        return (
            f"{kind} belongs to {made_by}, which is queued in its place. Fix: run `muster why` for that one."
        )
    return f"{kind} has no queue label, so Kueue does not queue it. Fix: add the label {label}."
