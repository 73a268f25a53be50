"""What the record says of one gang: when its capacity stood, when it was held, when its pods came."""

from collections.abc import Iterable
from datetime import datetime

from muster.controller.gangs.identity import ATTEMPT
from muster.local.demo.cluster import Object
from muster.local.demo.events import condition, holds, owners, pool_of
from muster.model.names import WORKLOAD_UID_LABEL
from tests.e2e.recorder import Life, Recorder, version


def job(record: Recorder, kind: str, name: str) -> Life:
    """The newest job of that name."""
    return next(life for life in reversed(record.lives(kind)) if life.name == name)


def status(record: Recorder, kind: str, name: str) -> Object:
    """Of the newest job of that name; {} before the record has it."""
    lives = [life for life in record.lives(kind) if life.name == name]
    found: Object = (lives[-1].last.get("status") or {}) if lives else {}
    return found


def workload(record: Recorder, name: str) -> Life:
    """The Workload of the job of that name."""
    uids = {
        life.uid
        for kind in ("RayJob", "RayCluster", "Job")
        for life in record.lives(kind)
        if life.name == name
    }
    return next(life for life in record.lives("Workload") if owners(life.last) & uids)


def has_quota(record: Recorder, name: str) -> bool:
    return _exists(record, name) and holds(workload(record, name).last, "QuotaReserved")


def is_admitted(record: Recorder, name: str) -> bool:
    return _exists(record, name) and holds(workload(record, name).last, "Admitted")


def _exists(record: Recorder, name: str) -> bool:
    try:
        return bool(workload(record, name).versions)
    except StopIteration:
        return False


def requests(record: Recorder, name: str) -> list[Life]:
    """Every ProvisioningRequest that was ever made for the job, by us or by Kueue."""
    try:
        uid = workload(record, name).uid
    except StopIteration:
        return []
    return [
        life
        for life in record.lives("ProvisioningRequest")
        if (life.last["metadata"].get("labels") or {}).get(WORKLOAD_UID_LABEL) == uid
        or uid in owners(life.last)
    ]


def attempts(record: Recorder, name: str) -> set[str]:
    """Those of the job: each has written templates, whether it asked for nodes or took what others leave."""
    uid = workload(record, name).uid
    written = (life.last["metadata"] for life in record.lives("PodTemplate") if uid in owners(life.last))
    return {each["labels"][ATTEMPT] for each in written if ATTEMPT in each.get("labels", {})}


def pool(record: Recorder, request: Life) -> str:
    """The pool that it asks for, from its template's record: the template itself may be gone."""
    templates = {"PodTemplate": [life.last for life in record.lives("PodTemplate")]}
    return pool_of(type(record.now())(templates), request.last)


def provisioned(request: Life) -> int | None:
    """The version from which its capacity was there."""
    return request.since(lambda found: holds(found, "Provisioned"))


def held(request: Life) -> tuple[int, int] | None:
    """From which version to which it held capacity; open ends lie in the far future."""
    begun = provisioned(request)
    return None if begun is None else (begun, request.gone or 2**62)


def pods(record: Recorder, name: str) -> list[Life]:
    """Every pod that was ever made for the RayJob, RayCluster or Job."""
    found = []
    for life in record.lives("Pod"):
        labels = life.last["metadata"].get("labels") or {}
        cluster = labels.get("ray.io/cluster", "")
        if (
            cluster == name
            or cluster.rpartition("-")[0] == name
            or labels.get("batch.kubernetes.io/job-name") == name
        ):
            found.append(life)
    return found


def is_ready(record: Recorder, name: str) -> bool:
    """Whether the RayCluster runs with all of its pods."""
    clusters = [life for life in record.lives("RayCluster") if life.name == name and life.gone is None]
    return bool(clusters) and (clusters[-1].last.get("status") or {}).get("state") == "ready"


def runs(record: Recorder, name: str) -> bool:
    """Whether a pod of the Job is ready."""
    return any(life.gone is None and holds(life.last, "Ready") for life in pods(record, name))


def moment(found: Object, kind: str) -> datetime:
    """When a condition last changed."""
    one = condition(found, kind)
    assert one is not None, f"{found['metadata']['name']} has no condition {kind}"
    return datetime.fromisoformat(one["lastTransitionTime"])


def created(found: Object) -> datetime:
    return datetime.fromisoformat(found["metadata"]["creationTimestamp"])


def assert_capacity_came_first(record: Recorder, name: str, *, pools: Iterable[str]) -> None:
    """No pod of the gang existed before the last piece of its capacity was there: a request in each of these
    pools, and every node that its pods ran on.

    Judged by the API server's order of versions where it was watched, and by the objects' own time stamps,
    which have whole seconds. Requests that were given up before are another attempt's.
    """
    gang = pods(record, name)
    assert gang, f"{name} had no pods"
    first_pod, first_time = min(life.born for life in gang), min(created(life.last) for life in gang)
    attempt = [one for one in requests(record, name) if one.gone is None or one.gone > first_pod]
    assert sorted(pool(record, one) for one in attempt) == sorted(pools)
    for request in attempt:
        late = request.first(lambda found: holds(found, "Provisioned"))
        assert late is not None, f"{request.name} never was Provisioned"
        assert _is_before(request, late, first_pod), (
            f"a pod of {name} existed before {request.name} was Provisioned"
        )
        assert moment(late, "Provisioned") <= first_time
    for pod in (one for one in gang if not _was_never_bound(one)):
        node = _node_of(record, pod)
        ready = node.first(lambda found: holds(found, "Ready"))
        assert ready is not None, f"the node of {pod.name} never was Ready"
        assert _is_before(node, ready, first_pod), (
            f"a pod of {name} existed before the node of {pod.name} was Ready"
        )
        assert moment(ready, "Ready") <= first_time


def _was_never_bound(pod: Life) -> bool:
    """Whether it came and went without a node: KubeRay makes a worker twice when the answer to the first was
    lost with the API server, and takes one away again, at times before the scheduler has seen it."""
    return pod.gone is not None and not pod.last["spec"].get("nodeName")


def _node_of(record: Recorder, pod: Life) -> Life:
    """Names come back with every node of a pool; this is the one that stood when the pod was there."""
    name = pod.last["spec"].get("nodeName")
    stood = (
        life
        for life in record.lives("Node", ever=True)
        if life.name == name and (life.gone is None or life.gone > pod.born)
    )
    node = next(stood, None)
    assert node is not None, f"no node {name} stood when {pod.name} was there"
    return node


def _is_before(life: Life, found: Object, first_pod: int) -> bool:
    """Whether that version came before; true where the record has it from a list and cannot know."""
    return version(found) in life.caught_up or version(found) < first_pod
