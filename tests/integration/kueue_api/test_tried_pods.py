"""A pod of each template is tried before capacity is asked for: what the namespace lacks or does not allow is
said in the API server's words, and nothing is bought. Webhooks of others: test_foreign_webhooks.py.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import pytest

from muster.config import load
from muster.model import names
from tests.envtest import path_of
from tests.integration.kueue_api.conftest import world_of
from tests.integration.kueue_api.objects import apply
from tests.integration.kueue_api.works import plain, with_gpu, work
from tests.integration.kueue_api.world import PODS, STACK, TEAM, World, is_outside, pod
from tests.waiting import eventually

Object = dict[str, Any]

_CLASS: Final = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "urgent"},
    "value": 10,
}


def _account(name: str) -> Object:
    meta = {"name": name, "namespace": TEAM}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta}


@pytest.fixture(scope="module")
def _plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("tried")
    with world_of(load(STACK), folder, needs_accounts=True) as made:
        made.begin()
        apply(made.plane, _account("default"))
        yield made


@pytest.fixture
def world(_plane: World) -> Iterator[World]:
    yield _plane
    _plane.clear()


def _submit(world: World, **spec: Any) -> None:
    apply(world.plane, work("Job", {**pod("l4"), **spec}))


def _failure(world: World) -> str:
    return world.notes("job").get(names.LAST_FAILURE_ANNOTATION, "")


@pytest.mark.parametrize(
    ("spec", "missing", "words"),
    [
        ({"serviceAccountName": "trainer"}, _account("trainer"), ('serviceaccount "trainer" not found',)),
        ({"priorityClassName": "urgent"}, _CLASS, ("no PriorityClass with name urgent was found",)),
    ],
    ids=["its account", "its class"],
)
def test_a_gang_whose_pods_lack_something_asks_for_nothing_until_it_is_there(
    world: World, spec: Object, missing: Object, words: tuple[str, ...]
) -> None:
    with world.manager():
        _submit(world, **spec)
        failure = eventually("its try has failed", partial(_failure, world))
        for word in ("pod of main Forbidden", *words):
            assert word in failure, failure
        assert is_outside(world.workload("job"))
        assert not world.asked("job")
        apply(world.plane, missing)
        try:
            world.provision(eventually("it asks", partial(world.asked, "job"))[0])
            world.wait_until_runs("job")
        finally:
            world.delete(path_of(missing))


def test_a_gang_waits_outside_its_quota_while_the_namespace_may_have_no_further_pod(world: World) -> None:
    """No controller counts pods here, so the test does."""
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": TEAM}}
    quota["spec"] = {"hard": {"pods": "1"}}
    apply(world.plane, quota)
    try:
        _count(world, quota, used="1")
        with world.manager():
            _submit(world)
            failure = eventually("its try has failed", partial(_failure, world))
            assert "namespace quota exhausted" in failure, failure
            assert not world.asked("job")
            _count(world, quota, used="0")
            eventually("it asks", partial(world.asked, "job"))
            assert world.items(PODS) == []
    finally:
        world.delete(path_of(quota))


def _count(world: World, quota: Object, *, used: str) -> None:
    status = {"hard": {"pods": "1"}, "used": {"pods": used}}
    world.patch(f"{path_of(quota)}/status", {"status": status})
    eventually("the server knows", lambda: _may_have_pod(world) is (used == "0"))


def _may_have_pod(world: World) -> bool:
    meta = {"name": "any", "namespace": TEAM}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": plain()}
    try:
        world.plane.call("POST", f"{PODS}?dryRun=All", body)
    except OSError:
        return False
    return True


def test_the_head_without_gpus_is_tried_beside_the_workers(world: World) -> None:
    """KubeRay would buy nodes for the workers and make no head."""
    cluster = work("RayCluster", with_gpu("l4"))
    cluster["spec"]["suspend"] = True
    cluster["spec"]["headGroupSpec"]["template"]["spec"]["serviceAccountName"] = "trainer"
    with world.manager():
        apply(world.plane, cluster)
        failure = eventually("its try has failed", partial(_failure, world))
        assert "pod of head Forbidden" in failure, failure
        assert not world.asked("job")


def test_a_pod_without_an_image_is_found_though_no_policy_looks(world: World) -> None:
    """Ray's definitions let it be left out. Only what KubeRay adds to a head has none that anybody wrote."""
    cluster = work("RayCluster", with_gpu("l4"))
    cluster["spec"]["suspend"] = True
    del cluster["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]["image"]
    with world.manager():
        apply(world.plane, cluster)

        def is_told() -> bool:
            return any("image: Required value" in text for text in world.notes("job").values())

        eventually("its image is missed", is_told)
        assert not world.asked("job")
