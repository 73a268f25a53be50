"""What was deleted from the cluster is a difference, and an update puts it back."""

import json
from typing import Any

import pytest
from pulumi.runtime.proto import provider_pb2

from muster.provider.manifests import Ref
from muster.provider.provider import describe, to_struct
from tests.unit.bundle.fake_api import FakeApi
from tests.unit.bundle.test_bundle_converge import body
from tests.unit.bundle.test_bundle_provider import (
    URN,
    api,
    configured,
    create,
    diff,
    inputs,
    plugin,
    port,
)

__all__ = ["api", "configured", "plugin", "port"]


TEAM = json.dumps(
    [
        body("Namespace", "team-a"),
        body("ConfigMap", "budget", namespace="team-a"),
        body("ClusterQueue", "team-a", version="kueue.x-k8s.io/v1beta2"),
        body("LocalQueue", "default", version="kueue.x-k8s.io/v1beta2", namespace="team-a"),
    ]
)
SPACE = "/api/v1/namespaces/team-a"


async def seen(plugin: Any, created: Any) -> Any:
    """What the next preview of the same Bundle finds."""
    return await diff(plugin, inputs(a=TEAM), inputs(a=TEAM), state=created.properties)


def is_put_back(found: Any) -> bool:
    """An update in place: nothing of the manifests changes."""
    return (found.changes, list(found.diffs), list(found.replaces), set(found.detailedDiff)) == (
        provider_pb2.DiffResponse.DIFF_SOME,
        ["objects"],
        [],
        set(),
    )


async def test_what_is_there_is_no_difference_and_is_listed_once_for_all_bundles(
    plugin: Any, api: FakeApi
) -> None:
    created = await create(plugin, a=TEAM)
    for _ in range(3):
        assert (await seen(plugin, created)).changes == provider_pb2.DiffResponse.DIFF_NONE
    kueue = "/apis/kueue.x-k8s.io/v1beta2"
    assert sorted(api.listed) == ["/api/v1/namespaces", f"{kueue}/clusterqueues", f"{kueue}/localqueues"]


@pytest.mark.parametrize(
    "gone",
    [
        [
            SPACE,
            f"{SPACE}/configmaps/budget",
            "/apis/kueue.x-k8s.io/v1beta2/namespaces/team-a/localqueues/default",
        ],
        ["/apis/kueue.x-k8s.io/v1beta2/clusterqueues/team-a"],
        [f"{SPACE}/configmaps/budget"],
    ],
)
async def test_what_was_deleted_is_put_back(plugin: Any, api: FakeApi, gone: list[str]) -> None:
    created = await create(plugin, a=TEAM)
    for path in gone:
        del api.objects[path]
    assert is_put_back(await seen(plugin, created))
    await plugin.Update(
        provider_pb2.UpdateRequest(
            id=created.id, urn=URN, olds=created.properties, old_inputs=inputs(a=TEAM), news=inputs(a=TEAM)
        )
    )
    assert set(gone) <= api.objects.keys()


async def test_a_namespace_that_is_being_deleted_is_missing(plugin: Any, api: FakeApi) -> None:
    created = await create(plugin, a=TEAM)
    api.objects[SPACE]["metadata"]["deletionTimestamp"] = "2026-11-23T00:00:00Z"
    assert is_put_back(await seen(plugin, created))


async def test_a_kind_that_is_no_longer_served_is_missing(plugin: Any, api: FakeApi, configured: Any) -> None:
    created = await create(plugin, a=TEAM)
    api.unserved.add("LocalQueue")
    await plugin.Configure(configured)  # another run of the engine
    assert is_put_back(await seen(plugin, created))


async def test_an_account_that_may_not_list_previews_no_difference(plugin: Any, api: FakeApi) -> None:
    created = await create(plugin, a=TEAM)
    del api.objects[SPACE]
    api.refusals["/api/v1/namespaces"] = [
        (403, {"reason": "Forbidden", "message": "namespaces is forbidden"})
    ]
    assert (await seen(plugin, created)).changes == provider_pb2.DiffResponse.DIFF_NONE


async def test_what_was_never_applied_is_not_missing(plugin: Any, api: FakeApi) -> None:
    """The state of a Bundle that another cluster holds, or that was never applied, lists nothing."""
    await create(plugin, a=TEAM)
    api.objects.pop(SPACE)
    state = to_struct({"cluster": "the-cluster", "objects": []})
    found = await diff(plugin, inputs(a=TEAM), inputs(a=TEAM), state=state)
    assert found.changes == provider_pb2.DiffResponse.DIFF_NONE


def test_the_warning_names_a_few_objects_and_the_number_of_the_others() -> None:
    refs = [Ref("v1", "Namespace", "", "team-a"), *(Ref("v1", "Secret", "team-a", f"s{n}") for n in range(4))]
    assert describe(refs) == (
        "no longer in the cluster: Namespace team-a, Secret team-a/s0, Secret team-a/s1 and 2 more objects. "
        "`pulumi up` puts back what is missing"
    )
