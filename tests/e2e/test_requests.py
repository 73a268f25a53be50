"""The local cluster with the gang story fits the smallest machine that Muster supports."""

from collections.abc import Iterable, Iterator

from muster.local.demo.cluster import Object
from muster.model.quantities import parse_quantity
from tests.e2e import light
from tests.e2e.local_cluster import Muster

CORES, GIB = 2, 8
# What KubeRay asks for in the container that waits for the head, in every worker.
_WAITER = {"cpu": "200m", "memory": "256Mi"}


def test_all_requests_together_fit_two_cores_and_eight_gib(muster: Muster) -> None:
    standing = [
        pod["spec"] for pod in muster.cluster.all("Pod") if pod["status"]["phase"] in ("Pending", "Running")
    ]
    (gang,) = light.example("gang/rayjob.yaml", image="any")
    cpu, memory = _total([*standing, *_pods(gang)])
    print(f"requests: {cpu:.2f} cores of {CORES}, {memory / 2**30:.2f} GiB of {GIB}")
    assert cpu <= CORES
    assert memory <= GIB * 2**30


def test_the_sum_counts_the_larger_of_containers_and_init_containers() -> None:
    pod = {
        "containers": [_container(cpu="100m", memory="1Gi"), _container(cpu="50m", memory="1Gi")],
        "initContainers": [_container(cpu="200m", memory="1Gi")],
    }
    assert _total([pod, pod]) == (0.4, 4 * 2**30)


def _pods(ray_job: Object) -> Iterator[Object]:
    cluster = ray_job["spec"]["rayClusterSpec"]
    yield cluster["headGroupSpec"]["template"]["spec"]
    for group in cluster["workerGroupSpecs"]:
        waits = {"initContainers": [_container(**_WAITER)]}
        yield from [{**group["template"]["spec"], **waits}] * group["replicas"]


def _total(pods: Iterable[Object]) -> tuple[float, float]:
    """Cores and bytes, as the scheduler counts them."""
    every = list(pods)
    return sum(_pod(one, "cpu") for one in every), sum(_pod(one, "memory") for one in every)


def _pod(pod: Object, resource: str) -> float:
    together = sum(_request(container, resource) for container in pod["containers"])
    before = [_request(container, resource) for container in pod.get("initContainers") or ()]
    return max([together, *before])


def _request(container: Object, resource: str) -> float:
    """A limit without a request counts as one."""
    resources = container.get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return float(parse_quantity(str(asked.get(resource, 0))))


def _container(**requests: str) -> Object:
    return {"resources": {"requests": requests}}
