"""Real Karpenter over nodes of KWOK, with the real scheduler and Kueue: where gangs have to find their nodes.

Everything is a process of this host. The cloud behind Karpenter is a stand-in, whose stock a test says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from muster.config import load
from muster.local import envtest
from muster.local.envtest import ControlPlane, Programs
from muster.local.envtest.karpenter import CRDS as KARPENTER_CRDS
from muster.local.envtest.karpenter import (
    NODE_CLAIMS,
    NODE_POOLS,
    InstanceType,
    boot,
    define,
    node_pool,
    stock,
)
from muster.local.envtest.kueue import define as define_kueue
from muster.model import names
from muster.model.stack import Stack
from muster.render import kueue
from tests import built
from tests.integration.kueue_api.objects import apply
from tests.unit.model.kueue_files import rendered
from tests.waiting import eventually

Json = dict[str, Any]

STACK: Final = Path(__file__).with_name("stack.yaml")
TEAM: Final = "team-a"
RIVALS: Final = "rivals"
H100, L4 = "p5.48xlarge", "g6.8xlarge"
TYPES: Final = (
    InstanceType(name=H100, cpu="192", memory="2Ti", gpus=8, price=98.0, zones=("zone-a", "zone-b")),
    InstanceType(name=L4, cpu="32", memory="128Gi", gpus=1, price=2.0, zones=("zone-a", "zone-b")),
)
_POOLS: Final = {"h100": H100, "l4": L4}
_NEEDED: Final = (
    ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kueue", "kwok", "karpenter"),
    ("kueue-crds", "provisioningrequest-crd", "kwok-stages", *KARPENTER_CRDS),
)
_CONTROLLERS: Final = (
    *("garbage-collector-controller", "namespace-controller", "job-controller"),
    *("node-lifecycle-controller", "taint-eviction-controller", "pod-garbage-collector-controller"),
)
# A busy machine is late with heartbeats.
_PATIENT: Final = ("--node-monitor-grace-period=10m",)
# As short as the cloud of a test may be: a refused offering comes back after seconds, not minutes.
_USUAL: Final[dict[str, str | None]] = {"launch": "0s", "unavailable-for": "2s", "error": None}


@dataclass(slots=True)
class World:
    """A plane on which Karpenter buys nodes. Each test says what the cloud has."""

    plane: ControlPlane
    stack: Stack
    programs: Programs

    # The cloud

    def sells(self, *, h100: int | None = None, l4: int | None = None, **words: str | None) -> None:
        """What it has of each type, in its first zone and nothing in the second; None is without bound."""
        has: dict[str, str | None] = dict(_USUAL)
        for name, count in ((H100, h100), (L4, l4)):
            has[f"{name}_zone-a"] = None if count is None else str(count)
            has[f"{name}_zone-b"] = None if count is None else "0"
        stock(self.plane, {**has, **{key.replace("_", "-"): word for key, word in words.items()}})

    def boots(self, takes: str) -> None:
        """How long an instance boots that is bought from now on."""
        boot(self.plane, takes)

    def limit(self, pool: str, gpus: int | None) -> None:
        """The limit of the NodePool."""
        made = node_pool(pool, [_POOLS[pool]], gpus=gpus)
        self.plane.apply(made, f"{NODE_POOLS}/{pool}")

    # Work

    def gang(self, name: str, nodes: int, *, pool: str = "h100", **labels: str) -> None:
        """A Job of so many pods of one whole node each."""
        meta = {"name": name, "namespace": TEAM, "labels": {names.QUEUE_LABEL: "default", **labels}}
        template = {"spec": {"restartPolicy": "Never", **pod(pool)}}
        spec = {"suspend": True, "parallelism": nodes, "completions": nodes, "template": template}
        self.plane.call(
            "POST",
            f"/apis/batch/v1/namespaces/{TEAM}/jobs",
            {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec},
        )

    def clear(self) -> None:
        """No work is left, and no node."""
        for namespace in (TEAM, RIVALS):
            body = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
            self.plane.call("DELETE", f"/apis/batch/v1/namespaces/{namespace}/jobs", body)
            self.plane.call("DELETE", f"/api/v1/namespaces/{namespace}/pods?gracePeriodSeconds=0")
        self.eventually("the work is gone", lambda: not self.pods() and not self.workloads())
        # Karpenter takes its time with empty nodes: the next test does not wait for that.
        self.plane.call("DELETE", NODE_CLAIMS)
        self.eventually("the nodes are gone", lambda: not self.claims() and not self.nodes())

    # What there is

    def items(self, path: str) -> list[Json]:
        return list(self.plane.call("GET", path)["items"])

    def pods(self, namespace: str = TEAM) -> list[Json]:
        return self.items(f"/api/v1/namespaces/{namespace}/pods")

    def running(self, name: str) -> int:
        """Pods of the gang that have a node."""
        return sum(_job_of(each) == name and "nodeName" in each["spec"] for each in self.pods())

    def nodes(self) -> list[str]:
        """Those that Karpenter bought."""
        selector = "karpenter.sh/nodepool"
        return [each["metadata"]["name"] for each in self.items(f"/api/v1/nodes?labelSelector={selector}")]

    def claims(self) -> list[Json]:
        return self.items(NODE_CLAIMS)

    def workloads(self) -> list[Json]:
        return self.items(f"/apis/{names.KUEUE_API_VERSION}/namespaces/{TEAM}/workloads")

    def events(self, reason: str, *, namespace: str = TEAM) -> list[str]:
        """What events of this reason say."""
        found = self.items(f"/api/v1/namespaces/{namespace}/events")
        return [each["message"] for each in found if each["reason"] == reason]

    def eventually(self, what: str, reached: Any) -> Any:
        return eventually(what, reached, told=self.explained)

    def explained(self) -> str:
        told = {
            "pods": [(each["metadata"]["name"], each["spec"].get("nodeName")) for each in self.pods()],
            "claims": [(each["metadata"]["name"], each.get("status", {})) for each in self.claims()],
            "workloads": [each.get("status") for each in self.workloads()],
        }
        logs = (self.plane.folder / "karpenter.log").read_text(errors="replace")[-4000:]
        return f"{json.dumps(told, indent=1)}\n{logs}"


@contextmanager
def world(folder: Path) -> Iterator[World]:
    """A fresh one, with its queues and NodePools, until the block ends."""
    stack = load(STACK)
    programs = envtest.found(*_NEEDED) or built.absent(
        ", ".join(envtest.missing(*_NEEDED)), build="make test-karpenter"
    )
    with envtest.control_plane(folder, programs) as plane, ExitStack() as held:
        define_kueue(plane, programs)
        define(plane, programs)
        held.enter_context(envtest.controllers(plane, programs, _CONTROLLERS, flags=_PATIENT))
        held.enter_context(envtest.scheduler(plane, programs))
        held.enter_context(envtest.kwok(plane, programs))
        held.enter_context(envtest.karpenter(plane, programs, TYPES))
        config = kueue.manager_config(stack)
        held.enter_context(envtest.kueue(plane, programs, config=config))
        for item in (*rendered(stack), _namespace(RIVALS)):
            apply(plane, item)
        made = World(plane, stack, programs)
        for pool in _POOLS:
            made.limit(pool, None)
        yield made


def pod(pool: str) -> Json:
    """The spec of a pod that needs a whole node of the pool."""
    gpu = {names.GPU_RESOURCE: "8" if pool == "h100" else "1"}
    return {
        "nodeSelector": {names.POOL_LABEL: pool},
        "tolerations": [{"key": names.GPU_RESOURCE, "operator": "Exists", "effect": "NoSchedule"}],
        "containers": [
            {
                "name": "work",
                "image": "none",
                "resources": {"requests": {"cpu": "1", "memory": "1Gi", **gpu}, "limits": gpu},
            }
        ],
    }


def _job_of(item: Json) -> str:
    return str(item["metadata"].get("labels", {}).get("batch.kubernetes.io/job-name", ""))


def _namespace(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
