"""A gang starts whole or not at all, and holds nothing while it cannot start."""

from datetime import datetime

import pytest

from muster.local.demo.cluster import Object
from muster.local.demo.events import RETRY_AT, condition, holds
from tests.e2e import gangs, light
from tests.e2e.local_cluster import Muster

BOTH = {"l4": 1, "h100": 1}
LAST_FAILURE = "muster.dev/last-failure"


def test_a_gang_gets_all_of_its_capacity_before_any_of_its_pods_and_ends_succeeded(muster: Muster) -> None:
    told = muster.story("gang")

    assert told[-1]["result"] == "succeeded"
    record = muster.recorder
    job = gangs.job(record, "RayJob", "gang")
    assert job.versions[0]["spec"]["suspend"] is True
    assert job.last["status"]["jobStatus"] == "SUCCEEDED"

    admitted = gangs.workload(record, "gang").first(lambda found: holds(found, "Admitted"))
    assert admitted is not None
    assert _flavors(admitted) == {"head": {"cpu"}, "l4": {"l4"}, "h100": {"h100"}}

    requests = gangs.requests(record, "gang")
    assert sorted(gangs.pool(record, one) for one in requests) == ["h100", "l4"]
    assert all(len(one.last["spec"]["podSets"]) == 1 for one in requests)

    gangs.assert_capacity_came_first(record, "gang", pools=BOTH)
    assert _pools_of_pods(muster, "gang") == {"headgroup": "cpu", "l4": "l4", "h100": "h100"}

    assert not muster.gpu_nodes()
    assert any("loss" in line["text"] for line in told if line.get("who") == "gang")


def test_two_split_gangs_never_hold_half_each(muster: Muster) -> None:
    record, names = muster.recorder, ("first", "second")
    for name in names:
        _submit(muster, name, namespace="team-a", workers=BOTH)
    muster.wait("both gangs have quota", lambda: all(gangs.has_quota(record, name) for name in names))
    muster.wait("one gang runs", lambda: any(gangs.is_ready(record, name) for name in names))

    winner = next(name for name in names if gangs.is_ready(record, name))
    loser = next(name for name in names if name != winner)
    assert not gangs.pods(record, loser)
    _delete(muster, winner, namespace="team-a")
    muster.wait("the other gang runs", lambda: gangs.is_ready(record, loser))

    for name in names:
        gangs.assert_capacity_came_first(record, name, pools=BOTH)
    for mine in _holdings(muster, winner):
        for theirs in _holdings(muster, loser):
            assert mine[1] <= theirs[0] or theirs[1] <= mine[0], "both gangs held capacity at one time"


def test_a_stock_out_releases_everything_and_lets_the_next_gang_of_the_queue_run(muster: Muster) -> None:
    record = muster.recorder
    # The stock runs out when h100 is promised and l4 stands already: late enough for a busy machine.
    muster.fault("slow", pool="h100", kind="delay", by="5m")
    _submit(muster, "unlucky", namespace="team-b", workers=BOTH)
    muster.wait("unlucky has quota", lambda: gangs.has_quota(record, "unlucky"))
    muster.cluster.apply(_job(muster, "patient", namespace="team-b"))
    muster.wait("l4 stands", lambda: _provisioned_pools(muster, "unlucky") == {"l4"})
    muster.wait("patient waits for quota", lambda: _is_pending(muster, "patient"))
    muster.fault("none", pool="h100", kind="stock-out")

    muster.wait("patient runs", lambda: gangs.runs(record, "patient"))

    unlucky = gangs.workload(record, "unlucky")
    released = unlucky.first(lambda found: RETRY_AT in (found["metadata"].get("annotations") or {}))
    assert released is not None
    assert released["spec"]["active"] is False
    retry_at = datetime.fromisoformat(released["metadata"]["annotations"][RETRY_AT])
    assert gangs.moment(gangs.workload(record, "patient").last, "QuotaReserved") < retry_at
    # Kueue takes the checks off a Workload that waits outside the quota, so it says why in an annotation.
    assert "ResourcePoolExhausted" in released["metadata"]["annotations"][LAST_FAILURE]
    assert all(one.gone is not None for one in gangs.requests(record, "unlucky"))
    assert not gangs.pods(record, "unlucky")

    # It comes back by itself when there is stock.
    muster.heal()
    muster.cluster.delete("Job", "patient", namespace="team-b")
    muster.wait("unlucky runs", lambda: gangs.is_ready(record, "unlucky"))


@pytest.mark.usefixtures("builtin")
def test_with_the_builtin_check_a_stock_out_blocks_the_next_gang_for_the_whole_backoff(
    muster: Muster,
) -> None:
    record = muster.recorder
    muster.fault("once", pool="l4", kind="stock-out", count=1)
    muster.cluster.apply(_job(muster, "unlucky", namespace="builtin"))
    muster.wait("unlucky has quota", lambda: gangs.has_quota(record, "unlucky"))
    muster.cluster.apply(_job(muster, "patient", namespace="builtin"))
    muster.wait("its request has failed", lambda: _has_failed(muster, "unlucky"))
    failed = next(one for one in gangs.requests(record, "unlucky") if holds(one.last, "Failed"))

    since = gangs.moment(failed.last, "Failed")
    muster.wait("one of them gets quota", lambda: _reserved_after(muster, since))

    # Not before Kueue's backoff was over, although the stock was there all the time.
    waited = min(_reserved_after(muster, since)) - since
    assert waited.total_seconds() >= BACKOFF - 1  # both times are cut to whole seconds


BACKOFF = 20


@pytest.fixture
def builtin(muster: Muster) -> object:
    """A queue of its own with Kueue's built-in check: room for one GPU job."""
    for manifest in _builtin_queue():
        muster.cluster.apply(manifest)
    muster.wait("the built-in check is active", lambda: _is_active(muster))
    yield
    for job in ("unlucky", "patient"):
        muster.cluster.delete("Job", job, namespace="builtin")
    muster.sweep()
    for manifest in reversed(_builtin_queue()):
        meta = manifest["metadata"]
        muster.cluster.delete(manifest["kind"], meta["name"], namespace=meta.get("namespace"))


def _builtin_queue() -> list[Object]:
    def kueue(kind: str, name: str = "builtin", /, **spec: object) -> Object:
        meta = {"name": name} | ({"namespace": "builtin"} if kind == "LocalQueue" else {})
        return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": meta, "spec": spec}

    space = {"name": "builtin", "labels": {"muster.dev/team": "builtin"}}
    notes = {"muster.dev/queues": "default", "muster.dev/priorities": "prod,dev"}
    backoff = {"backoffBaseSeconds": BACKOFF, "backoffMaxSeconds": BACKOFF, "backoffLimitCount": 3}
    config = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "builtin"}
    quotas = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}
    flavor = {"name": "l4", "resources": [{"name": n, "nominalQuota": quota} for n, quota in quotas.items()]}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {**space, "annotations": notes}},
        kueue(
            "ProvisioningRequestConfig",
            provisioningClassName="queued-provisioning.gke.io",
            managedResources=["nvidia.com/gpu"],
            retryStrategy=backoff,
        ),
        kueue("AdmissionCheck", controllerName="kueue.x-k8s.io/provisioning-request", parameters=config),
        kueue(
            "ClusterQueue",
            namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "builtin"}},
            resourceGroups=[{"coveredResources": list(quotas), "flavors": [flavor]}],
            admissionChecksStrategy={"admissionChecks": [{"name": "builtin"}]},
        ),
        kueue("LocalQueue", "default", clusterQueue="builtin"),
    ]


def _is_active(muster: Muster) -> bool:
    queue = muster.cluster.get("ClusterQueue", "builtin")
    return queue is not None and holds(queue, "Active")


def _submit(muster: Muster, name: str, *, namespace: str, workers: dict[str, int]) -> None:
    image = muster.image("python")
    muster.cluster.apply(light.ray_cluster(name, namespace=namespace, image=image, workers=workers))


def _delete(muster: Muster, name: str, *, namespace: str) -> None:
    muster.cluster.delete("RayCluster", name, namespace=namespace)


def _job(muster: Muster, name: str, *, namespace: str) -> Object:
    return light.gpu_job(name, namespace=namespace, image=muster.image("python"), pool="l4")


def _flavors(workload: Object) -> dict[str, set[str]]:
    assigned = workload["status"]["admission"]["podSetAssignments"]
    return {one["name"]: set(one["flavors"].values()) for one in assigned}


def _pools_of_pods(muster: Muster, name: str) -> dict[str, str]:
    """Ray group -> pool of the node that its pod ran on. Nodes are called after their pools."""
    return {
        life.last["metadata"]["labels"]["ray.io/group"]: life.last["spec"]["nodeName"].rpartition("-")[0]
        for life in gangs.pods(muster.recorder, name)
    }


def _holdings(muster: Muster, name: str) -> list[tuple[int, int]]:
    return [span for one in gangs.requests(muster.recorder, name) if (span := gangs.held(one)) is not None]


def _provisioned_pools(muster: Muster, name: str) -> set[str]:
    record = muster.recorder
    return {
        gangs.pool(record, one)
        for one in gangs.requests(record, name)
        if one.gone is None and holds(one.last, "Provisioned")
    }


def _is_pending(muster: Muster, name: str) -> bool:
    try:
        reserved = condition(gangs.workload(muster.recorder, name).last, "QuotaReserved")
    except StopIteration:
        return False
    return reserved is not None and reserved["status"] == "False"


def _has_failed(muster: Muster, name: str) -> bool:
    return any(holds(one.last, "Failed") for one in gangs.requests(muster.recorder, name))


def _reserved_after(muster: Muster, since: datetime) -> list[datetime]:
    """When quota was reserved for one of the test's jobs."""
    versions = [found for life in muster.recorder.lives("Workload") for found in life.versions]
    reserved = [gangs.moment(found, "QuotaReserved") for found in versions if holds(found, "QuotaReserved")]
    return [when for when in reserved if when > since]
