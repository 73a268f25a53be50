"""ClusterQueues that our check cannot serve, regardless of who writes them."""

from __future__ import annotations

from tests.integration.tenancy.cluster import Answer, Object
from tests.integration.tenancy.conftest import World
from tests.integration.tenancy.works import CONCURRENT, cluster_queue


def _made(world: World, body: Object) -> Answer:
    return world.admin.create(body)


def test_concurrent_admission_and_our_check_are_not_in_one_queue(world: World) -> None:
    answer = _made(world, cluster_queue("gang", "budget", concurrentAdmissionPolicy=CONCURRENT))
    assert answer.code == 403, answer
    assert "concurrentAdmissionPolicy does not go with AdmissionCheck gang" in answer.message
    assert "remove one of them from ClusterQueue concurrent" in answer.message


def test_each_alone_is_allowed(world: World) -> None:
    for body in (cluster_queue("gang"), cluster_queue("budget", concurrentAdmissionPolicy=CONCURRENT)):
        answer = _made(world, body)
        assert answer.is_allowed, answer.message
