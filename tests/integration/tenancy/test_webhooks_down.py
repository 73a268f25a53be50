"""Without our webhooks the cluster goes on, and what could run beside its queue is refused all the same."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest

from muster.components import gang_admission
from muster.model.queuetree import crd
from muster.render import queuetree
from muster.render.manifest import manifest
from tests.integration.tenancy import works
from tests.integration.tenancy.cluster import Object, allowed, await_allowed, await_denied, collection
from tests.integration.tenancy.conftest import World, described
from tests.integration.tenancy.works import WORKLOAD, named, owner, pod

SEEN = {
    "apiVersion": "v1",
    "kind": "PodTemplate",
    "metadata": {"name": "seen", "namespace": works.NAMESPACE},
    "template": works.template(),
}


@pytest.fixture(scope="module")
def down(world: World) -> Iterator[World]:
    """Both configurations in force, and no such Service."""
    configurations = [
        manifest("admissionregistration.k8s.io/v1", kind, "test-webhooks", webhooks=webhooks)
        for kind, webhooks in (
            ("ValidatingWebhookConfiguration", gang_admission.validating(described())),
            ("MutatingWebhookConfiguration", gang_admission.mutating(described())),
        )
    ]
    # Ours let pass what they do not answer: that they are asked is seen by one that does not.
    seen = copy.deepcopy(configurations[0]["webhooks"][0])
    seen |= {"name": "seen.muster.dev", "failurePolicy": "Fail"}
    seen["rules"][0] |= {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["podtemplates"]}
    configurations[0]["webhooks"].append(seen)
    for body in configurations:
        assert world.admin.create(body, dry_run=False).is_allowed
    await_denied(world.admin, SEEN)
    yield world
    for body in configurations:
        world.admin.send("DELETE", f"{collection(body)}/test-webhooks")
    # The API server asks them for a moment longer.
    await_allowed(world.admin, SEEN)


def elsewhere(body: Object, namespace: str) -> Object:
    return body | {"metadata": {"name": body["metadata"]["name"], "namespace": namespace}}


def test_work_passes_and_what_could_never_run_is_still_refused(down: World) -> None:
    for body in (works.ray_job(), works.ray_cluster(), works.ray_service(), works.job()):
        allowed(down.member.create(body))
    for body, word in (
        (named(works.ray_job(), "x" * 48), "at most 47"),
        (works.ray_job(submissionMode="InteractiveMode"), "cannot be suspended"),
        (works.ray_job(shutdownAfterJobFinishes=False), "shutdownAfterJobFinishes"),
    ):
        assert word in down.member.create(body).message


def test_the_system_its_nodes_and_other_namespaces_are_not_asked(down: World) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-0"}}
    assert down.admin.send("POST", "/api/v1/nodes?dryRun=All", node).is_allowed
    for namespace in ("kube-system", "default"):
        assert down.admin.create(elsewhere(pod(1), namespace)).is_allowed
        assert down.admin.create(elsewhere(works.job(), namespace)).is_allowed
        assert down.admin.create(elsewhere(works.ray_job(), namespace)).is_allowed


def test_kueue_and_kuberay_go_on_with_what_was_reviewed(down: World) -> None:
    assert down.controllers["kueue"].create(named(WORKLOAD, "while-down")).is_allowed
    assert down.controllers["kuberay"].create(pod(1, owner=owner("RayCluster", "ray.io/v1"))).is_allowed
    made = named(works.ray_cluster(suspend=False), "train-x3")
    made["metadata"] |= {"labels": {}, "ownerReferences": [owner("RayJob", "ray.io/v1", "train")]}
    allowed(down.controllers["kuberay"].create(made))


def test_work_without_a_queue_is_still_refused(down: World) -> None:
    for body in (works.ray_job(), works.job()):
        assert "needs a queue" in down.member.create(works.labelled(body, works.QUEUE, None)).message


def test_the_queue_tree_is_what_its_definition_takes(world: World) -> None:
    world.server.define([crd()])
    body = queuetree.tree(described())
    stored = world.server.apply(body, f"{collection(body)}/default")
    assert stored["spec"] == body["spec"]
