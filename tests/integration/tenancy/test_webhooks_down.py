"""Without our webhooks the cluster goes on: only what could run beside its queue has to wait."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from muster.components import gang_webhooks
from muster.model.queuetree import crd
from muster.render import queuetree
from muster.render.manifest import manifest
from tests.integration.tenancy import works
from tests.integration.tenancy.cluster import Object, await_allowed, await_denied, collection
from tests.integration.tenancy.conftest import World, described
from tests.integration.tenancy.works import WORKLOAD, named, owner, pod


@pytest.fixture(scope="module")
def down(world: World) -> Iterator[World]:
    """Both configurations in force, and no such Service."""
    configurations = [
        manifest("admissionregistration.k8s.io/v1", kind, "test-webhooks", webhooks=webhooks)
        for kind, webhooks in (
            ("ValidatingWebhookConfiguration", gang_webhooks.validating()),
            ("MutatingWebhookConfiguration", gang_webhooks.mutating()),
        )
    ]
    for body in configurations:
        assert world.admin.create(body, dry_run=False).is_allowed
    await_denied(world.member, works.ray_job())
    yield world
    for body in configurations:
        world.admin.send("DELETE", f"{collection(body)}/test-webhooks")
    # The API server asks them for a moment longer, and the next tests would be refused.
    await_allowed(world.member, works.ray_job())


def elsewhere(body: Object, namespace: str) -> Object:
    return body | {"metadata": {"name": body["metadata"]["name"], "namespace": namespace}}


def test_a_ray_job_waits_for_its_review_and_says_for_which(down: World) -> None:
    answer = down.member.create(works.ray_job())
    assert answer.code == 500
    assert "rayjob.muster.dev" in answer.message


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
    answer = down.controllers["kuberay"].create(made)
    assert answer.is_allowed, answer.message


def test_other_work_with_a_queue_of_its_own_passes_and_without_one_is_still_refused(down: World) -> None:
    for body in (works.job(), works.ray_cluster(), works.ray_service()):
        assert down.member.create(body).is_allowed
    without = works.labelled(works.job(), works.QUEUE, None)
    assert "needs a queue" in down.member.create(without).message


def test_the_queue_tree_is_what_its_definition_takes(world: World) -> None:
    world.server.define([crd()])
    body = queuetree.tree(described())
    stored = world.server.apply(body, f"{collection(body)}/default")
    assert stored["spec"] == body["spec"]
