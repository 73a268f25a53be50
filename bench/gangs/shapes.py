"""The queues of a case, and the gangs that are submitted to them.

Responsible for the figures of each case.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

from muster.config import parse
from muster.model import names
from muster.model.stack import Stack

POOL: Final = "l4"
HEAD: Final = "h100"
_ACCELERATORS: Final = {POOL: "nvidia-l4", HEAD: "nvidia-h100-80gb"}
# As many nodes of a GPU each as a pool may have, and so as many GPUs as all quotas together.
_MOST_NODES: Final = 15_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Cohorts, and ClusterQueues in each, with this many GPUs of their own (all together the pool's without a
    number) and to borrow. `provisioning`: the class of the pools' requests.
    """

    cohorts: int = 1
    queues: int = 2
    quota: int | None = None
    borrow: int = 0
    preempts: bool = False
    provisioning: str = names.GKE_QUEUED_CLASS
    pools: tuple[str, ...] = (POOL,)

    @property
    def teams(self) -> tuple[str, ...]:
        return tuple(f"team-{number}" for number in range(self.cohorts * self.queues))


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """One Workload of pods with a GPU each, and with `head` of one more in that pool. `runs`: seconds until
    it is finished, None for ever. `after`: the seconds from the first one until it comes. A trial ends
    without those that do not `count`.
    """

    namespace: str
    name: str
    pods: int = 1
    runs: float | None = None
    priority: int = 0
    after: float = 0.0
    counts: bool = True
    head: str = ""

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name

    def manifest(self) -> dict[str, Any]:
        """With every field, because no webhook of Kueue runs here to set defaults."""
        meta = {"name": self.name, "namespace": self.namespace}
        pods = [{"name": "main", "count": self.pods, "template": {"spec": self._pod(POOL)}}]
        if self.head:
            pods.insert(0, {"name": "head", "count": 1, "template": {"spec": self._pod(self.head)}})
        spec = {"queueName": "default", "active": True, "priority": self.priority, "podSets": pods}
        return {"apiVersion": names.KUEUE_API_VERSION, "kind": "Workload", "metadata": meta, "spec": spec}

    @staticmethod
    def _pod(pool: str) -> dict[str, Any]:
        limits = {names.GPU_RESOURCE: "1"}
        requests = {"cpu": "1", "memory": "1Gi", **limits}
        return {
            "restartPolicy": "Never",
            "nodeSelector": {names.POOL_LABEL: pool},
            "tolerations": [{"key": names.GPU_TAINT_KEY, "operator": "Exists", "effect": "NoSchedule"}],
            "containers": [
                {"name": "work", "image": "none", "resources": {"requests": requests, "limits": limits}}
            ],
        }


@cache
def stack_of(shape: Shape) -> Stack:
    """The shape as the values of a stack file."""
    departments: dict[str, Any] = {}
    for number, team in enumerate(shape.teams):
        department = departments.setdefault(f"cohort-{number // shape.queues}", {"teams": {}})
        quota = shape.quota or _MOST_NODES // len(shape.teams)
        bounds: dict[str, Any] = {"quota": dict.fromkeys(shape.pools, quota)}
        if shape.borrow:
            bounds["borrow"] = dict.fromkeys(shape.pools, shape.borrow)
        if shape.preempts:
            bounds["preemption"] = {"within": "lower-priority", "reclaim": "any"}
        department["teams"][team] = bounds
    gpu = {"capacity": "queued", "provisioningClass": shape.provisioning, "maxNodes": _MOST_NODES}
    pools = {
        pool: {"accelerator": _ACCELERATORS[pool], "machine": f"local-{pool}", **gpu} for pool in shape.pools
    }
    config = {
        "muster:artifacts": "local",
        "muster:cluster": {"provider": "existing", "name": "bench", "context": "muster"},
        "muster:pools": {"cpu": {"machine": "local-cpu", "minNodes": 1, "maxNodes": 10}, **pools},
        "muster:priorities": {"prod": 1000, "dev": 100},
        "muster:departments": departments,
    }
    return parse(config, source="bench")


def plain(shape: Shape, count: int) -> Iterator[Gang]:
    """Gangs that are all alike and all fit, spread over the queues."""
    for number in range(count):
        yield Gang(namespace=shape.teams[number % len(shape.teams)], name=f"gang-{number:05d}")


def split(shape: Shape, count: int) -> Iterator[Gang]:
    """The same, each with a head in another pool."""
    return (replace(each, head=HEAD) for each in plain(shape, count))


def kueues_own(shape: Shape, each: int) -> Iterator[Gang]:
    """Kueue's performance shape: of each ten in a queue 7 small, 2 medium and 1 large one, with its sizes,
    priorities and run times (test/performance/scheduler/configs/baseline/generator.yaml of Kueue, which has
    500 in a queue and lets them come within a minute).
    """
    kinds = [("small", 1, 0.2, 50), ("medium", 5, 0.5, 100), ("large", 20, 1.0, 200)]
    for number in range(each):
        kind, pods, runs, priority = kinds[(number % 10 >= 7) + (number % 10 >= 9)]
        for team in shape.teams:
            name = f"{kind}-{number:04d}"
            yield Gang(namespace=team, name=name, pods=pods, runs=runs, priority=priority)


OUT: Final = "out-of-stock"


def scarce(shape: Shape, *, out: int, runnable: int, runs: float, every: float = 0.0) -> Iterator[Gang]:
    """First those that the cloud has nothing for, then those that could run, one `every` so many seconds.
    (Kueue orders by times of creation, which are whole seconds.)
    """
    (team,) = shape.teams
    for number in range(out):
        yield Gang(namespace=team, name=f"{OUT}-{number:04d}", counts=False)
    for number in range(runnable):
        yield Gang(namespace=team, name=f"runnable-{number:04d}", runs=runs, after=2.0 + number * every)
