"""Killing the controller or the API server at any moment of a gang delays it and changes nothing else."""

import signal
from collections.abc import Callable
from functools import partial

import pytest

from muster.local.demo.events import holds
from tests.e2e import gangs, light
from tests.e2e.local_cluster import Muster
from tests.faults.seeds import is_soak

GANG = "stubborn"


def kill_controller(muster: Muster) -> None:
    """Every replica at once, without a word to say goodbye: none is left to take over the lease."""
    for pod in muster.cluster.all("Pod", namespace="muster-system"):
        muster.cluster.delete("Pod", pod["metadata"]["name"], namespace="muster-system", grace=0)


def kill_api_server(muster: Muster) -> None:
    muster.signal("kube-apiserver", signal.SIGKILL)


MOMENTS: list[tuple[str, Callable[[Muster], bool]]] = [
    ("it has quota", lambda muster: gangs.has_quota(muster.recorder, GANG)),
    ("the first request is accepted", lambda muster: _requests(muster, "Accepted") >= 1),
    ("the second request is accepted", lambda muster: _requests(muster, "Accepted") >= 2),
    ("the first is provisioned", lambda muster: _requests(muster, "Provisioned") >= 1),
    ("all are provisioned", lambda muster: _requests(muster, "Provisioned") >= 2),
    ("it is admitted", lambda muster: gangs.is_admitted(muster.recorder, GANG)),
    ("its first pod exists", lambda muster: bool(gangs.pods(muster.recorder, GANG))),
]


# KubeRay comes back half a minute after the API server. That gangs do, tests/faults shows at each change.
@pytest.mark.parametrize("kill", [kill_controller, kill_api_server] if is_soak() else [kill_controller])
def test_a_gang_survives_the_death_of(muster: Muster, kill: Callable[[Muster], None]) -> None:
    record = muster.recorder
    # Far enough apart that what was killed is back, or not, at the next moment.
    muster.fault("slow", pool="l4", kind="delay", by="5s")
    muster.fault("slower", pool="h100", kind="delay", by="12s")
    image = muster.image("python")
    muster.cluster.apply(
        light.ray_cluster(GANG, namespace="team-a", image=image, workers={"l4": 1, "h100": 1})
    )
    for what, reached in MOMENTS:
        muster.wait(what, partial(reached, muster))
        print(f"{kill.__name__} when {what}", flush=True)
        kill(muster)
    muster.wait("its three pods run", lambda: _running(muster) == ["h100", "headgroup", "l4"])
    muster.catch_up()

    gangs.assert_capacity_came_first(record, GANG, pools=["h100", "l4"])
    assert sorted(gangs.pool(record, one) for one in gangs.requests(record, GANG)) == ["h100", "l4"]
    assert not gangs.workload(record, GANG).since(lambda found: holds(found, "Evicted"))


def _requests(muster: Muster, kind: str) -> int:
    return sum(holds(one.last, kind) for one in gangs.requests(muster.recorder, GANG))


def _running(muster: Muster) -> list[str]:
    """The Ray groups of its living pods; [] while one of them is not ready.

    Not what the RayCluster says of itself: until its watch is back, KubeRay writes that from an old copy, is
    refused, and doubles its pause with each refusal, up to 1,000 s (controller-runtime's rate limiter).
    KubeRay may also have made a worker twice, when the answer to the first was lost; it takes one away again.
    """
    alive = [life.last for life in gangs.pods(muster.recorder, GANG) if life.gone is None]
    if not all(holds(pod, "Ready") for pod in alive):
        return []
    return sorted(pod["metadata"]["labels"]["ray.io/group"] for pod in alive)
