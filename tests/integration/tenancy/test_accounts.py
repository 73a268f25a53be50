"""No tenant acts as an account that a controller made, and such an account does its own work alone.

KubeRay makes an account for each elastic Ray cluster, gives it `patch` on the pods and Ray clusters of the
namespace, and mounts its token into the head's pod: any code in that pod may use it.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.tenancy import works
from tests.integration.tenancy.accounts import autoscaler, kubelet
from tests.integration.tenancy.cluster import (
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    Answer,
    Caller,
    Object,
    allowed,
    place,
    refused,
)
from tests.integration.tenancy.conftest import World
from tests.integration.tenancy.works import NAMESPACE, annotated, changed, named, owner, pod

SPACE = f"/api/v1/namespaces/{NAMESPACE}"
TOKEN = "kubernetes.io/service-account-token"
OF = "kubernetes.io/service-account.name"
ELASTIC = "kueue.x-k8s.io/elastic-job"
ITS_CONTROLLERS = "only its controllers change the pods of a job"
NEVER_EXPIRES = ("holds a token that never expires", "kubectl create token member")


@pytest.fixture(scope="module")
def elastic(world: World) -> Object:
    """An elastic cluster that exists, and another one beside it."""
    body = annotated(
        named(works.ray_cluster(enableInTreeAutoscaling=True, suspend=False), "elastic"), ELASTIC, "true"
    )
    for each in (body, named(body, "beside")):
        world.member.ensure(each)
    return body


@pytest.fixture(scope="module")
def scaler(world: World, elastic: Object) -> Caller:
    return autoscaler(world, elastic["metadata"]["name"])


@pytest.fixture(scope="module")
def worker(world: World) -> Object:
    """A worker of an elastic cluster, which waits for its quota."""
    body = pod(1, owner=owner("RayCluster", "ray.io/v1", "elastic"), name="elastic-worker")
    body["metadata"] |= {
        "labels": {"ray.io/cluster": "elastic", "kueue.x-k8s.io/podset": "gpu"},
        "annotations": {"kueue.x-k8s.io/workload": "elastic-1"},
    }
    body["spec"]["schedulingGates"] = [{"name": ELASTIC}]
    world.controllers["kuberay"].ensure(body)
    return body


def secret(name: str, kind: str = "Opaque", **annotations: str) -> Object:
    return changed(
        works.existing("v1", "Secret", name, type=kind), "metadata", "annotations", value=annotations
    )


# Tokens.


def test_a_secret_with_a_token_of_an_account_is_denied(world: World) -> None:
    """Gained: the rights of the account, with a token that never expires and that no log mentions.
    test_attacks.py creates one by its name.
    """
    body = secret("credentials", TOKEN, **{OF: "elastic"})
    for caller in world.tenants:
        refused(caller.apply(body), *NEVER_EXPIRES)
        generated = changed(body, "metadata", "name", value=None)
        generated["metadata"]["generateName"] = "credentials-"
        # Also refused as a name that KubeRay may draw: the API server says one of both.
        refused(caller.create(generated))


def test_a_secret_of_before_is_not_turned_to_another_account(world: World, scaler: Caller) -> None:
    """The cluster's controller fills it with a token of whatever account it names."""
    body = world.admin.ensure(secret("of-before", TOKEN, **{OF: "member"}))
    for caller in world.tenants:
        refused(caller.patch(body, {"metadata": {"annotations": {OF: "elastic"}}}), *NEVER_EXPIRES)
        assert caller.patch(body, {"metadata": {"labels": {"app": "x"}}}).is_allowed
        assert caller.delete(body).is_allowed


def test_other_secrets_are_a_tenant_s_own(world: World) -> None:
    basic = secret("basic", "kubernetes.io/basic-auth") | {"stringData": {"username": "a", "password": "b"}}
    for caller in world.tenants:
        allowed(caller.create(secret("plain")))
        allowed(caller.create(basic))


def token_request(caller: Caller, name: str) -> Answer:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    return caller.send("POST", f"{SPACE}/serviceaccounts/{name}/token", body)


def test_a_token_is_requested_for_the_account_of_pipelines_alone(world: World, scaler: Caller) -> None:
    """Gained: the rights of a controller's account for an hour, and again each hour."""
    for whose in ("elastic", "default", "trusted"):
        refused(
            token_request(world.trusted, whose),
            f"account {whose} is for pods and controllers only",
            "create token member",
        )
        for caller in (world.member, world.person, scaler):
            assert token_request(caller, whose).code == 403
        # A kubelet mounts the token of any account into its pods.
        assert token_request(kubelet(world), whose).is_allowed
        assert token_request(world.admin, whose).is_allowed
    assert token_request(world.trusted, "member").is_allowed
    for caller in (world.member, world.person, scaler):
        assert token_request(caller, "member").code == 403


IDENTITIES = {
    "an administrator": {"Impersonate-User": "root", "Impersonate-Group": "system:masters"},
    "Kueue": {"Impersonate-User": "system:serviceaccount:kueue-system:kueue-controller-manager"},
    "the autoscaler": {"Impersonate-User": f"system:serviceaccount:{NAMESPACE}:elastic"},
    "another team": {"Impersonate-User": "system:serviceaccount:team-b:member"},
}


@pytest.mark.parametrize("identity", IDENTITIES)
def test_a_tenant_impersonates_no_other_account(world: World, scaler: Caller, identity: str) -> None:
    for caller in (world.member, scaler):
        borrowed = Caller(identity, world.server, caller.token, IDENTITIES[identity])
        refused(borrowed.get(f"{SPACE}/pods"), "impersonate")


def test_an_impersonated_autoscaler_is_bound_as_the_real_one(
    world: World, scaler: Caller, worker: Object
) -> None:
    """The built-in role `edit` contains this right."""
    as_scaler = {"Impersonate-User": f"system:serviceaccount:{NAMESPACE}:elastic"}
    borrowed = Caller("as elastic", world.server, world.trusted.token, as_scaler)
    refused(borrowed.patch(worker, {"spec": {"schedulingGates": []}}), ITS_CONTROLLERS)


# What the account of an autoscaler does.

SCALED: list[Object] = [
    {"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": 2},
    {
        "op": "replace",
        "path": "/spec/workerGroupSpecs/0/scaleStrategy",
        "value": {"workersToDelete": ["elastic-worker"]},
    },
]


def test_an_autoscaler_scales_its_own_cluster(world: World, elastic: Object, scaler: Caller) -> None:
    """As Ray 2.54 writes it (autoscaler/_private/kuberay/node_provider.py)."""
    assert scaler.get(place(elastic)).is_allowed
    assert scaler.get(f"{SPACE}/pods").is_allowed
    allowed(scaler.patch(elastic, SCALED, JSON_PATCH))


def test_an_autoscaler_scales_the_cluster_that_names_it(world: World, elastic: Object) -> None:
    """A head may name an account of its own, and KubeRay cuts the name of a long cluster from its front."""
    long = "my-cluster-whose-name-is-as-long-as-any-may-be-in-ray"
    hyphen = long.removesuffix("y")  # its 50th character from the end
    mounted = named(changed(elastic, "spec", "headGroupSpec", value=works.head()), "mounted")
    mounted["spec"]["headGroupSpec"]["template"]["spec"]["serviceAccountName"] = "shared"
    cut = ((named(elastic, long), long[-50:]), (named(elastic, hyphen), "r" + hyphen[-49:]))
    for body, name in ((mounted, "shared"), *cut):
        world.member.ensure(body)
        caller = autoscaler(world, name)
        allowed(caller.patch(body, SCALED, JSON_PATCH))


@pytest.mark.parametrize("name", ["c", "xlastic", "rlastic"])
def test_an_autoscaler_of_a_similar_name_scales_no_other_cluster(
    world: World, elastic: Object, name: str
) -> None:
    answer = autoscaler(world, name).patch(elastic, SCALED, JSON_PATCH)
    refused(answer, f"account {name} may scale only the Ray cluster that it was created for")


GROUP = works.cluster_spec()["workerGroupSpecs"][0]
TEMPLATE = works.template()
NOTHING_ELSE = "may change only replicas and scaleStrategy of worker groups"
HOSTED = changed(TEMPLATE, "spec", "hostname", value="x")
CHANGES: dict[str, Object] = {
    "an image": {"headGroupSpec": works.head(template=HOSTED)},
    "more than its bounds": {"workerGroupSpecs": [GROUP | {"maxReplicas": 64}]},
    "more hosts": {"workerGroupSpecs": [GROUP | {"numOfHosts": 4}]},
    "another template": {"workerGroupSpecs": [GROUP | {"template": works.template(8)}]},
    "a group": {"workerGroupSpecs": [GROUP, GROUP | {"groupName": "more"}]},
    "its end": {"suspend": True},
    "its start": {"suspend": False, "autoscalerOptions": {"version": "v1"}},
}
# No tenant does this to what is elastic or runs, and the API server names one of the policies.
OF_NO_TENANT = ("a group", "more hosts", "another template")


@pytest.mark.parametrize("name", CHANGES)
def test_an_autoscaler_changes_numbers_alone(
    world: World, elastic: Object, scaler: Caller, name: str
) -> None:
    answer = scaler.patch(elastic, {"spec": CHANGES[name]})
    assert answer.code == 403, answer
    if name not in OF_NO_TENANT:
        assert NOTHING_ELSE in answer.message


@pytest.mark.parametrize(
    "metadata",
    [
        {"annotations": {ELASTIC: None}},
        {"annotations": {"note": "x"}},
        {"labels": {works.QUEUE: None}},
        {"labels": {works.PRIORITY: None}},
        {"finalizers": ["example.com/mine"]},
        {"ownerReferences": [owner("RayJob", "ray.io/v1")]},
    ],
    ids=str,
)
def test_an_autoscaler_leaves_the_metadata_of_its_cluster(
    world: World, elastic: Object, scaler: Caller, metadata: Object
) -> None:
    refused(scaler.patch(elastic, {"metadata": metadata}))


def test_an_autoscaler_scales_no_other_cluster(world: World, elastic: Object, scaler: Caller) -> None:
    """Gained: the team's other clusters, from any code in one of them."""
    for other in ("beside", "elastic-2"):
        body = world.member.ensure(named(elastic, other))
        refused(
            scaler.patch(body, SCALED, JSON_PATCH),
            "account elastic may scale only the Ray cluster that it was created for",
        )


def test_a_member_changes_what_an_autoscaler_may_not(world: World, elastic: Object) -> None:
    allowed(world.member.patch(elastic, {"metadata": {"annotations": {"note": "x"}}}))


def _labelled(key: str, value: str | None) -> Object:
    return {"metadata": {"labels": {key: value}}}


def _annotated(key: str, value: str) -> Object:
    return {"metadata": {"annotations": {key: value}}}


# Gained by the gate: a worker on the node that another team's request had bought. By the others: another
# job's quota, pods that KubeRay and Kueue lose, nodes and code of one's own choice.
POD_CHANGES: dict[str, tuple[Object | list[Any], str]] = {
    "its gate": ([{"op": "remove", "path": "/spec/schedulingGates"}], JSON_PATCH),
    "its gate, merged": ({"spec": {"schedulingGates": None}}, MERGE),
    "its pod set": (_labelled("kueue.x-k8s.io/podset", None), MERGE),
    "its cluster": (_labelled("ray.io/cluster", "other"), MERGE),
    "any label": (_labelled("app", "x"), MERGE),
    "its workload": (_annotated("kueue.x-k8s.io/workload", "other"), MERGE),
    "capacity": (_annotated("autoscaling.x-k8s.io/consume-provisioning-request", "other"), MERGE),
    "the state of a resize": (_annotated("ray.io/ippr-status", "{}"), STRATEGIC),
    "its owner": ({"metadata": {"ownerReferences": None}}, MERGE),
    "a taint": ([{"op": "add", "path": "/spec/tolerations/-", "value": {"operator": "Exists"}}], JSON_PATCH),
    "its node": ({"spec": {"nodeSelector": {"kubernetes.io/hostname": "gpu-0"}}}, MERGE),
    "its deadline": ({"spec": {"activeDeadlineSeconds": 1}}, MERGE),
    "its image": ({"spec": {"containers": [{"name": "main", "image": "mine"}]}}, STRATEGIC),
}


@pytest.mark.parametrize("name", POD_CHANGES)
def test_nothing_of_a_pod_that_was_counted_is_changed(
    world: World, scaler: Caller, worker: Object, name: str
) -> None:
    change, kind = POD_CHANGES[name]
    for caller in (scaler, world.trusted):
        refused(caller.patch(worker, change, kind), ITS_CONTROLLERS, "change RayCluster elastic")
    for caller in (world.member, world.person):
        assert caller.patch(worker, change, kind).code == 403


def test_a_gate_is_not_applied_away_nor_put(world: World, scaler: Caller, worker: Object) -> None:
    bare = works.existing("v1", "Pod", "elastic-worker", spec={"schedulingGates": []})
    refused(scaler.apply(works.labelled(bare, "app", "x")), ITS_CONTROLLERS)
    live = changed(world.admin.get(place(worker)).body, "spec", "schedulingGates", value=None)
    refused(world.trusted.put(worker, live), ITS_CONTROLLERS)


def test_a_pod_keeps_the_resources_that_were_counted(world: World, scaler: Caller, worker: Object) -> None:
    """Gained: 32 CPUs with the quota of one. Ray asks for this where ray.io/ippr is set."""
    amounts = {"requests": {"cpu": "32"}, "limits": {"cpu": "32"}}
    larger = {"spec": {"containers": [{"name": "main", "resources": amounts}]}}
    for caller in (scaler, world.trusted):
        answer = caller.patch(worker, larger, STRATEGIC, subresource="resize")
        refused(answer, "pods/resize are not written by hand here", "ray.io/ippr")
