"""The pods of a job: how many are ready, and what keeps the others from it.

The reason is the first that applies: an image or a container that failed, an init container, the scheduler,
the phase. Pods with equal reasons are one entry, with the last lines of the log of a container that ended.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import quote, urlencode

import yaml

from muster.bounded_yaml import load_all
from muster.kubernetes.client import Client, inside
from muster.kubernetes.errors import ApiError, UnreachableError
from muster.live.fields import Json, find_condition, is_true, items, mapping, number, text, texts
from muster.local.simulated_cloud import names as cloud_names
from muster.model import names
from muster.model.quantities import many
from muster.model.work import PARTS
from muster.printable import sanitize_line

HIDDEN: Final = (403, 404)
"""Of a list that may not be read, or whose kind is not installed."""
_MAX_MESSAGE: Final = 400
_LOG_LINES: Final = 5
# What a container waits for in the ordinary course; every other reason is a failure.
_STARTING: Final = ("ContainerCreating", "PodInitializing")
# On the pods of a Ray cluster, where Kueue names no PodSet.
_RAY_GROUP: Final = "ray.io/group"


@dataclass(frozen=True, slots=True)
class PodReason:
    """Pods that are not ready for the same reason, such as `ErrImagePull`. `roles`: the PodSets that they
    belong to. `container`: of the first pod, the one that failed, "" where none did; `log`: its last lines.
    """

    reason: str
    message: str
    pods: tuple[str, ...]
    roles: tuple[str, ...] = ()
    container: str = ""
    is_restarted: bool = False
    log: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PodStatus:
    """`expected`: the pods that the Workload was admitted with. Those that ended well count as `done`, and as
    `placed` like all that have a node. `waiting`: those that have begun or are to, and are not ready.
    """

    expected: int
    ready: int
    done: int = 0
    reasons: tuple[PodReason, ...] = ()
    placed: int = 0
    waiting: int = 0

    @property
    def is_placed(self) -> bool:
        return self.placed >= self.expected

    @property
    def is_running(self) -> bool:
        """Whether no pod is waited for any more. A Job keeps the pods that failed before, and others may
        follow those that are done.
        """
        return self.ready + (0 if self.waiting else self.done) >= self.expected


class PodIndex:
    """Pods by what owns them. `parts`: objects that another kind may make, such as the RayCluster of a
    RayJob.
    """

    def __init__(self, pods: Iterable[Json], parts: Iterable[Json]) -> None:
        self._pods: defaultdict[str, list[Json]] = defaultdict(list)
        self._parts: defaultdict[str, list[str]] = defaultdict(list)
        for pod in pods:
            for uid in (*_owner_uids(pod), text(pod, "metadata", "uid")):
                self._pods[uid].append(pod)
        for part in parts:
            for uid in _owner_uids(part):
                self._parts[uid].append(text(part, "metadata", "uid"))

    def of(self, workload: Json) -> list[Json]:
        """The pods of a Workload's job, also those below the objects that the job made, by name."""
        waiting, seen = _owner_uids(workload), set[str]()
        found: dict[str, Json] = {}
        while waiting:
            uid = waiting.pop()
            if uid and uid not in seen:
                seen.add(uid)
                found |= {text(pod, "metadata", "name"): pod for pod in self._pods.get(uid, ())}
                waiting += self._parts.get(uid, ())
        return [found[name] for name in sorted(found)]


def deployment_of(pod: Json) -> str:
    """The name of the Deployment whose ReplicaSet made the pod; empty where none did."""
    template = texts(pod, "metadata", "labels").get("pod-template-hash", "")
    sets = (
        text(each, "name")
        for each in items(pod, "metadata", "ownerReferences")
        if text(each, "kind") == "ReplicaSet"
    )
    return next((name.removesuffix(f"-{template}") for name in sets if template), "")


def _owner_uids(found: Json) -> list[str]:
    return [text(each, "uid") for each in items(found, "metadata", "ownerReferences")]


def fetch_pods(api: Client, namespace: str) -> PodIndex:
    """The pods of a namespace, or of all where it is empty. ApiError without the right to list them."""
    work = inside(namespace)
    pods = api.list_all(f"/api/v1{work}/pods", mapping)
    lists = (api.find_all(f"{kind.api}{work}/{kind.resource}", mapping, absent=HIDDEN) for kind in PARTS)
    return PodIndex(pods, [part for listed in lists for part in listed or ()])


def pod_status(pods: Iterable[Json], expected: int) -> PodStatus:
    """What keeps these pods of one Workload from running. A pod that is being deleted counts as gone."""
    ready = done = placed = waiting = 0
    reasons: dict[tuple[str, str], PodReason] = {}
    for pod in pods:
        if text(pod, "metadata", "deletionTimestamp"):
            continue
        placed += bool(text(pod, "spec", "nodeName"))
        phase = text(pod, "status", "phase")
        if phase == "Succeeded":
            done += 1
        elif is_true(pod, "Ready"):
            ready += 1
        else:
            waiting += phase != "Failed"
            found = _reason(pod)
            same = reasons.get((found.reason, found.message), replace(found, pods=(), roles=()))
            reasons[found.reason, found.message] = replace(
                same,
                pods=(*same.pods, *found.pods),
                roles=tuple(dict.fromkeys((*same.roles, *found.roles))),
            )
    return PodStatus(expected, ready, done, tuple(reasons.values()), placed, waiting)


def with_logs(api: Client, namespace: str, status: PodStatus) -> PodStatus:
    """The same, with the last lines of one container of each reason that has ended."""
    return replace(status, reasons=tuple(_with_log(api, namespace, each) for each in status.reasons))


def _with_log(api: Client, namespace: str, found: PodReason) -> PodReason:
    if not found.container:
        return found
    path = log_path(
        namespace,
        found.pods[0],
        container=found.container,
        tailLines=_LOG_LINES,
        limitBytes=1 << 14,
        previous=str(found.is_restarted).lower(),
    )
    try:
        lines = api.text(path).splitlines()
    except (ApiError, UnreachableError):
        return found  # The node is gone or slow: the reason stands without it.
    return replace(found, log=tuple(map(sanitize_line, lines[-_LOG_LINES:])))


def log_path(namespace: str, pod: str, **query: str | int) -> str:
    """Where the API server serves the log of a pod."""
    return f"/api/v1{inside(namespace)}/pods/{quote(pod, safe='')}/log?{urlencode(query)}"


def _reason(pod: Json) -> PodReason:
    labels = texts(pod, "metadata", "labels")
    role = labels.get(names.POD_SET_LABEL) or labels.get(_RAY_GROUP) or ""
    found = next(_reasons(pod), None) or PodReason(
        "NotReady", text(find_condition(pod, "Ready"), "message"), ()
    )
    return replace(
        found,
        reason=sanitize_line(found.reason),
        message=sanitize_line(found.message, longest=_MAX_MESSAGE),
        pods=(text(pod, "metadata", "name"),),
        roles=(sanitize_line(role),) if role else (),
    )


def _reasons(pod: Json) -> Iterator[PodReason]:
    """What applies to a pod that is not ready, the most telling first."""
    initials, others = (
        items(pod, "status", field) for field in ("initContainerStatuses", "containerStatuses")
    )
    images = {
        text(each, "name"): text(each, "image")
        for field in ("initContainers", "containers")
        for each in items(pod, "spec", field)
    }
    for each in (*initials, *others):
        yield from _container_reasons(each, images.get(text(each, "name"), ""))
    if not is_true(pod, "Initialized"):
        for each in initials:
            if mapping(each, "state", "running"):
                yield PodReason("Init", f"init container {text(each, 'name')} runs", ())
    scheduled = find_condition(pod, "PodScheduled")
    if text(scheduled, "status") == "False":
        yield PodReason(text(scheduled, "reason"), text(scheduled, "message"), ())
    if reason := text(pod, "status", "reason"):  # such as Evicted
        yield PodReason(reason, text(pod, "status", "message"), ())
    for each in (*initials, *others):
        if reason := text(each, "state", "waiting", "reason"):
            yield PodReason(reason, text(each, "state", "waiting", "message"), ())
    if text(pod, "status", "phase") == "Pending":
        yield PodReason("Pending", "", ())


def _container_reasons(status: Json, image: str) -> Iterator[PodReason]:
    """The failure of one container."""
    name, waiting = text(status, "name"), mapping(status, "state", "waiting")
    ended, last = mapping(status, "state", "terminated"), mapping(status, "lastState", "terminated")
    reason = text(waiting, "reason")
    if reason and reason not in _STARTING:
        if not last:
            message = text(waiting, "message")
            yield PodReason(reason, f"{image}: {message}" if message else image, ())
        else:
            restarts = f", {number(status, 'restartCount') or 0} restarts"
            yield PodReason(reason, f"{_ending(name, last)}{restarts}", (), (), name, is_restarted=True)
    elif ended and number(ended, "exitCode") != 0:
        yield PodReason(text(ended, "reason") or "Error", _ending(name, ended), (), (), name)


def _ending(name: str, ended: Json) -> str:
    """`container main ended: OOMKilled, exit code 137`."""
    message = text(ended, "message")
    words = (text(ended, "reason"), f"exit code {number(ended, 'exitCode')}", message)
    return f"container {name} ended: {', '.join(filter(None, words))}"


# What the simulated cloud of a local cluster has in stock of the pools that a job waits for.
#
# Another cluster has no such cloud, and nothing is said of it.


_CONFIGS: Final = f"/api/v1/namespaces/{cloud_names.NAMESPACE}/configmaps"


def fetch_stock(api: Client, pools: Collection[str], messages: str) -> tuple[str, ...]:
    """A line for each offered pool that is one of `pools`, or that the messages name."""
    offered = _data(api, cloud_names.POOLS_CONFIG, cloud_names.POOLS_KEY)
    changed = _data(api, cloud_names.FAULTS_CONFIG, cloud_names.CAPACITY_KEY) if offered else {}
    return tuple(
        f"the simulated cloud has {many(stock, 'node')} of {name} in stock; "
        f"`muster local capacity {name} NODES` changes it"
        for name, stock in _stock(offered, changed)
        if name in pools or re.search(rf"\b{re.escape(name)}\b", messages)
    )


def _stock(offered: Mapping[str, Any], changed: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    for pool in items(offered, "pools"):
        name = text(pool, "name")
        stock = changed.get(name, pool.get("stock"))
        if isinstance(stock, int) and pool.get("enabled", True):
            yield sanitize_line(name), stock


def _data(api: Client, config: str, key: str) -> Mapping[str, Any]:
    found = mapping(api.find(f"{_CONFIGS}/{config}", absent=HIDDEN))
    try:
        return mapping(next(load_all(text(found, "data", key)), {}))
    except (yaml.YAMLError, RecursionError, ValueError):
        return {}
