"""Bringing a cluster to what a Bundle says, through everything that goes wrong on the way."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from muster.provider.api import Cluster, Deadline
from muster.provider.manifests import Ref, same_meaning
from muster.provider.resource import Written, delete, inventory, read_live, write
from tests.unit.bundle.fake_api import FakeApi

KUEUE = "kueue.x-k8s.io/v1beta2"
QUEUE = f"/apis/{KUEUE}/clusterqueues/team"


@pytest.fixture
async def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
async def cluster(api: FakeApi) -> AsyncIterator[Cluster]:
    server, access = await api.start()
    async with Cluster(access) as cluster:
        yield cluster
    await server.close()


def body(kind: str, name: str, *, version: str = "v1", namespace: str = "", **rest: Any) -> dict[str, Any]:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}


def team(**spec: Any) -> str:
    return json.dumps(
        [
            body("LocalQueue", "default", version=KUEUE, namespace="team"),
            body("ClusterQueue", "team", version=KUEUE, spec=spec),
            body("Namespace", "team"),
        ]
    )


def flavors(*names: str) -> dict[str, str]:
    return {"flavors": json.dumps([body("ResourceFlavor", name, version=KUEUE) for name in names])}


def metadata_of(api: FakeApi, flavor: str) -> dict[str, Any]:
    metadata: dict[str, Any] = api.objects[f"/apis/{KUEUE}/resourceflavors/{flavor}"]["metadata"]
    return metadata


async def put(
    cluster: Cluster,
    manifests: dict[str, str],
    before: dict[str, str] | None = None,
    state: Any = None,
    *,
    seconds: float = 20,
) -> Written:
    return await write(
        cluster,
        manifests,
        before=before or {},
        state=state or {},
        deadline=Deadline(seconds),
        log_status=lambda _: None,
    )


async def drop(cluster: Cluster, state: dict[str, Any], *, seconds: float = 20) -> Written:
    return await delete(cluster, state, deadline=Deadline(seconds), log_status=lambda _: None)


async def test_a_team_is_applied_in_order_and_goes_in_its_own(api: FakeApi, cluster: Cluster) -> None:
    written = await put(cluster, {"team": team()})
    assert written.failures == ()
    assert written.state["cluster"] == "the-cluster"
    assert api.log == ["PATCH namespaces/team", "PATCH clusterqueues/team", "PATCH localqueues/default"]
    api.log.clear()
    erased = await drop(cluster, written.state)
    assert (erased.failures, inventory(erased.state)) == ((), [])
    # The LocalQueue goes with its namespace.
    assert api.log == ["DELETE namespaces/team", "DELETE clusterqueues/team"]


async def test_an_object_that_left_the_bundle_leaves_the_cluster(api: FakeApi, cluster: Cluster) -> None:
    first = await put(
        cluster, {"a": json.dumps(body("Namespace", "a")), "b": json.dumps(body("Namespace", "b"))}
    )
    second = await put(cluster, {"a": json.dumps(body("Namespace", "a"))}, state=first.state)
    assert "/api/v1/namespaces/b" not in api.objects
    assert second.state["objects"] == ["v1 Namespace a"]


async def test_a_key_that_fails_stops_alone_and_the_next_run_finishes_it(
    api: FakeApi, cluster: Cluster
) -> None:
    api.refusals[QUEUE] = [(422, {"reason": "Invalid", "message": "spec.cohortName: Invalid value"})]
    other = json.dumps([body("Namespace", "other"), body("ConfigMap", "c", namespace="other")])
    first = await put(cluster, {"team": team(), "other": other})
    assert first.failures == ("[team] ClusterQueue team: spec.cohortName: Invalid value",)
    assert "PATCH localqueues/default" not in api.log
    assert "/api/v1/namespaces/other/configmaps/c" in api.objects
    second = await put(cluster, {"team": team(), "other": other}, state=first.state)
    assert second.failures == ()
    assert QUEUE in api.objects


async def test_a_field_that_others_hold_is_reported_with_their_name(api: FakeApi, cluster: Cluster) -> None:
    api.holders[QUEUE] = ("kubectl-edit", ".spec.cohortName")
    written = await put(cluster, {"team": team(cohortName="mine")})
    assert len(written.failures) == 1
    assert "kubectl-edit holds .spec.cohortName" in written.failures[0]
    assert "muster.dev/force-conflicts" in written.failures[0]


async def test_a_field_of_others_that_means_the_same_is_taken_over(api: FakeApi, cluster: Cluster) -> None:
    live = {"resources": [{"name": "cpu", "nominalQuota": 9}, {"name": "memory", "nominalQuota": "1024Mi"}]}
    (theirs,) = [each for each in json.loads(team(**live)) if each["kind"] == "ClusterQueue"]
    theirs["metadata"]["resourceVersion"] = "1"
    api.objects[QUEUE] = theirs | {"metadata": {**theirs["metadata"], "uid": "theirs"}}
    api.holders[QUEUE] = ("kubectl", ".spec.resources")
    same = {"resources": [{"name": "cpu", "nominalQuota": "9"}, {"name": "memory", "nominalQuota": "1Gi"}]}
    assert (await put(cluster, {"team": team(**same)})).failures == ()
    assert api.objects[QUEUE]["metadata"]["uid"] == "theirs"

    api.objects[QUEUE] = theirs
    other = {"resources": [{"name": "cpu", "nominalQuota": "8"}, {"name": "memory", "nominalQuota": "1Gi"}]}
    assert "kubectl holds .spec.resources" in (await put(cluster, {"team": team(**other)})).failures[0]


async def test_a_write_between_reading_and_taking_over_is_not_overwritten(
    api: FakeApi, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = {"fairSharing": {"weight": "1"}}
    api.objects[QUEUE] = body("ClusterQueue", "team", version=KUEUE, spec=spec)
    api.objects[QUEUE]["metadata"]["resourceVersion"] = "1"
    api.holders[QUEUE] = ("kubectl", ".spec.fairSharing.weight")
    read = cluster.get

    async def get(ref: Ref, deadline: Deadline) -> dict[str, Any] | None:
        found = await read(ref, deadline)
        if api.objects[QUEUE]["metadata"]["resourceVersion"] == "1":
            api.objects[QUEUE]["spec"] = {"fairSharing": {"weight": "7"}}
            api.objects[QUEUE]["metadata"]["resourceVersion"] = "2"
        return found

    monkeypatch.setattr(cluster, "get", get)
    written = await put(cluster, {"team": team(fairSharing={"weight": 1})})
    assert "kubectl holds .spec.fairSharing.weight" in written.failures[0]
    assert api.objects[QUEUE]["spec"] == {"fairSharing": {"weight": "7"}}


async def test_text_of_others_is_never_taken_for_an_amount(api: FakeApi, cluster: Cluster) -> None:
    """In other APIs than Kueue's, no field is taken over for what it means."""
    path = "/api/v1/namespaces/team/pods/work"
    theirs, ours = (
        body("Pod", "work", namespace="team", spec={"containers": [{"env": [{"name": "V", "value": value}]}]})
        for value in ("1.0", "1")
    )
    theirs["metadata"]["resourceVersion"] = "1"
    api.objects[path] = theirs
    api.holders[path] = ("kubectl", ".spec.containers")
    assert "kubectl holds .spec.containers" in (await put(cluster, {"team": json.dumps(ours)})).failures[0]


@pytest.mark.parametrize(
    ("field", "one", "other", "expected"),
    [
        ("nominalQuota", "1k", 1000, True),
        ("weight", "1", 1, True),
        ("provisioningClassName", "1k", "1000", False),
        ("nodeLabels", {"v": "1.0"}, {"v": "1"}, False),
        ("nodeLabels", {}, None, True),
    ],
)
def test_only_amounts_of_kueue_have_several_spellings(
    field: str, one: object, other: object, *, expected: bool
) -> None:
    assert same_meaning(one, other, field=field) is expected
    assert same_meaning({field: one}, {field: other}) is expected


async def test_a_field_that_was_ours_is_taken_back(api: FakeApi, cluster: Cluster) -> None:
    before = {"team": team(cohortName="mine")}
    first = await put(cluster, before)
    api.holders[QUEUE] = ("kubectl-edit", ".spec.cohortName")
    assert (await put(cluster, {"team": team(cohortName="new")}, before, first.state)).failures == ()
    assert api.objects[QUEUE]["spec"] == {"cohortName": "new"}


async def test_force_is_given_only_by_the_author_of_the_object(api: FakeApi, cluster: Cluster) -> None:
    api.holders["/api/v1/namespaces/n"] = ("other", ".metadata.labels.x")
    plain = body("Namespace", "n")
    forced = body("Namespace", "n")
    forced["metadata"]["annotations"] = {"muster.dev/force-conflicts": "true"}
    assert (await put(cluster, {"n": json.dumps(plain)})).failures
    assert not (await put(cluster, {"n": json.dumps(forced)})).failures


async def test_a_webhook_that_is_not_up_yet_is_waited_for(api: FakeApi, cluster: Cluster) -> None:
    down = (500, {"message": 'Internal error: failed calling webhook "vclusterqueue": connection refused'})
    api.refusals[QUEUE] = [down, down]
    assert (await put(cluster, {"team": team()})).failures == ()


async def test_a_kind_whose_crd_came_a_moment_ago_is_waited_for(api: FakeApi, cluster: Cluster) -> None:
    api.unserved.add("ClusterQueue")
    applying = asyncio.create_task(put(cluster, {"team": team()}))
    while "kueue.x-k8s.io/v1beta2" not in api.asked:
        await asyncio.sleep(0)
    api.unserved.clear()
    assert (await applying).failures == ()


async def test_a_finalizer_that_hangs_is_named_and_what_waits_for_it_stays(
    api: FakeApi, cluster: Cluster
) -> None:
    written = await put(cluster, {"team": team()})
    api.objects["/api/v1/namespaces/team"]["metadata"]["finalizers"] = ["example.com/hang"]
    erased = await drop(cluster, written.state, seconds=3)
    assert len(erased.failures) == 1
    assert "example.com/hang" in erased.failures[0]
    assert QUEUE in api.objects
    assert len(inventory(erased.state)) == 3
    del api.objects["/api/v1/namespaces/team"]
    assert (await drop(cluster, erased.state)).failures == ()


async def test_a_flavor_that_queues_still_use_is_asked_to_go_and_not_waited_for(
    api: FakeApi, cluster: Cluster
) -> None:
    first = await put(cluster, flavors("l4", "h100"))
    metadata = metadata_of(api, "h100")
    metadata["finalizers"] = ["kueue.x-k8s.io/resource-in-use"]
    second = await put(cluster, flavors("l4"), flavors("l4", "h100"), first.state)
    assert second.failures == ()
    assert metadata["deletionTimestamp"]
    assert f"{KUEUE} ResourceFlavor h100" in second.state["objects"]
    del api.objects[f"/apis/{KUEUE}/resourceflavors/h100"]
    assert (await drop(cluster, second.state)).failures == ()


async def test_an_object_on_its_way_out_is_made_anew_when_it_is_gone(api: FakeApi, cluster: Cluster) -> None:
    api.objects[QUEUE] = body("ClusterQueue", "team") | {
        "metadata": {"uid": "old", "deletionTimestamp": "now", "name": "team"}
    }
    applying = asyncio.create_task(put(cluster, {"team": team()}))
    while "PATCH clusterqueues/team" not in api.log:
        await asyncio.sleep(0)
    del api.objects[QUEUE]
    assert (await applying).failures == ()
    assert api.objects[QUEUE]["metadata"]["uid"] != "old"


async def test_a_flavor_that_a_person_deleted_while_queues_use_it_is_made_anew(
    api: FakeApi, cluster: Cluster
) -> None:
    """Kueue would keep it until no queue names it; nothing else keeps it."""
    flavor = flavors("l4")
    first = await put(cluster, flavor)
    metadata = metadata_of(api, "l4")
    metadata |= {"deletionTimestamp": "now", "finalizers": ["kueue.x-k8s.io/resource-in-use"]}
    assert (await put(cluster, flavor, flavor, first.state)).failures == ()
    made = metadata_of(api, "l4")
    assert "deletionTimestamp" not in made
    assert made["uid"] != metadata["uid"]


async def test_a_flavor_with_a_finalizer_of_others_is_waited_for(api: FakeApi, cluster: Cluster) -> None:
    flavor = flavors("l4")
    first = await put(cluster, flavor)
    metadata = metadata_of(api, "l4")
    metadata |= {"deletionTimestamp": "now", "finalizers": ["kueue.x-k8s.io/resource-in-use", "other/one"]}
    (failure,) = (await put(cluster, flavor, flavor, first.state, seconds=3)).failures
    assert "other/one" in failure


async def test_a_refused_secret_is_not_quoted(api: FakeApi, cluster: Cluster) -> None:
    path = "/api/v1/namespaces/default/secrets/s"
    details = {"causes": [{"field": "data.password", "message": "hunter2"}]}
    api.refusals[path] = [
        (422, {"reason": "Invalid", "message": "Invalid value: hunter2", "details": details})
    ]
    written = await put(cluster, {"s": json.dumps(body("Secret", "s", data={"password": "aHVudGVyMg=="}))})
    assert "hunter2" not in "".join(written.failures)
    assert "data.password" in written.failures[0]


async def test_looking_finds_drift_under_its_key_alone(api: FakeApi, cluster: Cluster) -> None:
    manifests = {"team": team(cohortName="mine"), "n": json.dumps(body("Namespace", "n"))}
    await put(cluster, manifests)
    assert (await read_live(cluster, manifests, deadline=Deadline(20))).manifests == manifests
    api.objects[QUEUE]["spec"]["cohortName"] = "stolen"
    seen = await read_live(cluster, manifests, deadline=Deadline(20))
    assert seen.manifests["n"] == manifests["n"]
    assert "stolen" in seen.manifests["team"]
    del api.objects[QUEUE]
    gone = await read_live(cluster, manifests, deadline=Deadline(20))
    assert "ClusterQueue" not in gone.manifests["team"]
    assert gone.missing == 1


async def test_cancelling_ends_a_wait_at_once_and_keeps_what_was_done(api: FakeApi) -> None:
    server, access = await api.start()
    cancelled = asyncio.Event()
    api.unserved.add("ClusterQueue")
    async with Cluster(access) as cluster:
        deadline = Deadline(60, cancelled=cancelled)
        writing = asyncio.create_task(
            write(
                cluster, {"team": team()}, before={}, state={}, deadline=deadline, log_status=lambda _: None
            )
        )
        while "PATCH namespaces/team" not in api.log:
            await asyncio.sleep(0)
        cancelled.set()
        written = await writing
    await server.close()
    assert "cancelled" in written.failures[0]
    assert "v1 Namespace team" in written.state["objects"]


async def test_a_namespace_that_the_cluster_needs_is_let_go_of_and_what_we_put_there_is_removed(
    api: FakeApi, cluster: Cluster
) -> None:
    default = "/api/v1/namespaces/default"
    ours = [body("Namespace", "default"), body("ConfigMap", "ours", namespace="default")]
    ours[0]["metadata"]["labels"] = {"muster.dev/team": "team"}
    written = await put(cluster, {"team": json.dumps(ours)})
    assert api.objects[default]["metadata"]["labels"] == {"muster.dev/team": "team"}

    assert (await drop(cluster, written.state)).failures == ()

    assert "labels" not in api.objects[default]["metadata"]
    assert f"{default}/configmaps/ours" not in api.objects
    assert "DELETE namespaces/default" not in api.log


async def test_a_namespace_that_left_the_bundle_stays_for_the_queue_that_did_not(
    api: FakeApi, cluster: Cluster
) -> None:
    """`muster:tenancy.namespaces` went from `managed` to `existing`."""
    space = "/api/v1/namespaces/team"
    ours = (("ConfigMap", "ours"), ("PersistentVolumeClaim", "data"))
    guarded = [*json.loads(team()), *(body(kind, name, namespace="team") for kind, name in ours)]
    guarded[2]["metadata"]["labels"] = {"muster.dev/team": "team"}
    first = await put(cluster, {"team": json.dumps(guarded)})
    api.objects[f"{space}/pods/work"] = body("Pod", "work", namespace="team")
    queues = {"team": json.dumps(json.loads(team())[:2])}

    second = await put(cluster, queues, state=first.state)

    assert second.failures == ()
    assert "labels" not in api.objects[space]["metadata"]
    assert f"{space}/pods/work" in api.objects
    assert f"{space}/persistentvolumeclaims/data" in api.objects
    assert f"{space}/configmaps/ours" not in api.objects
    assert "DELETE namespaces/team" not in api.log
    assert [ref.kind for ref in inventory(second.state)] == ["ClusterQueue", "LocalQueue"]

    assert (await drop(cluster, second.state)).failures == ()
    assert space in api.objects
