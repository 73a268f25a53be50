"""ClusterQueues that our check cannot serve, regardless of who writes them."""

from __future__ import annotations

from tests.integration.tenancy.cluster import allowed, refused
from tests.integration.tenancy.conftest import World
from tests.integration.tenancy.works import CONCURRENT, cluster_queue


def test_concurrent_admission_and_our_check_are_not_in_one_queue(world: World) -> None:
    answer = world.admin.create(cluster_queue("gang", "budget", concurrentAdmissionPolicy=CONCURRENT))
    words = "concurrentAdmissionPolicy does not go with AdmissionCheck gang"
    refused(answer, words, "remove one of them from ClusterQueue concurrent")


def test_each_alone_is_allowed(world: World) -> None:
    for body in (cluster_queue("gang"), cluster_queue("budget", concurrentAdmissionPolicy=CONCURRENT)):
        allowed(world.admin.create(body))
