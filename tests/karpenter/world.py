"""Real Karpenter over nodes of KWOK, with the real scheduler, Kueue and our manager: where gangs have to find
their nodes.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from muster.config import load
from muster.local.karpenter import CRDS, NODE_CLAIMS, NODE_POOLS, InstanceType, node_pool, stock_key
from muster.model import gangpolicy, names, queuetree
from muster.model.stack import Scheduler
from muster.render import kueue
from tests import built, envtest
from tests.envtest import ControlPlane
from tests.envtest.controllers import boot, define, stock
from tests.envtest.kueue import definitions
from tests.envtest.process import Process
from tests.integration.accounts import RIGHTS, limits, registered
from tests.integration.kueue_api.objects import apply
from tests.integration.kueue_api.works import PATHS, work
from tests.integration.kueue_api.world import TEAM, condition
from tests.integration.kueue_api.world import World as Managed
from tests.integration.rights import STRICT_OWNERS, audited
from tests.waiting import eventually

Json = dict[str, Any]

STACK: Final = Path(__file__).with_name("stack.yaml")
RIVALS: Final = "rivals"
# Before the gang in the queue of the scheduler. It takes no place of a pod that runs.
PRIORITIES: Final = {"rival-high": 1_000_000}
H100, L4 = "p5.48xlarge", "g6.8xlarge"
TYPES: Final = (
    InstanceType(name=H100, cpu="192", memory="2Ti", gpus=8, price=98.0, zones=("zone-a", "zone-b")),
    InstanceType(name=L4, cpu="32", memory="128Gi", gpus=1, price=2.0, zones=("zone-a", "zone-b")),
)
PLACEHOLDERS: Final = f"/api/v1/namespaces/{names.PLACEHOLDER_NAMESPACE}/pods"
_POOLS: Final = {"h100": H100, "l4": L4, "plain": H100}
_KUBERAY: Final = "kuberay-config"
_NEEDED: Final = (
    (
        *("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"),
        *("kueue", "kuberay", "kwok", "karpenter"),
    ),
    ("kueue-crds", "provisioningrequest-crd", _KUBERAY, "kwok-stages", *CRDS),
)
# Besides rights: the priority of placeholders.
_OURS: Final = RIGHTS | {"PriorityClass"}
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

    managed: Managed
    manager: Process | None = None

    @property
    def plane(self) -> ControlPlane:
        return self.managed.plane

    # The cloud

    def sells(self, *, h100: int | None = None, l4: int | None = None, **words: str | None) -> None:
        """What it has of each type, in its first zone and nothing in the second; None is without bound."""
        has: dict[str, str | None] = dict(_USUAL)
        for name, count in ((H100, h100), (L4, l4)):
            has[stock_key(name, "zone-a")] = None if count is None else str(count)
            has[stock_key(name, "zone-b")] = None if count is None else "0"
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
        queued = {names.QUEUE_LABEL: "default", names.PRIORITY_LABEL: "prod", **labels}
        meta = {"name": name, "namespace": TEAM, "labels": queued}
        template = {"spec": {"restartPolicy": "Never", **pod(pool)}}
        spec = {"suspend": True, "parallelism": nodes, "completions": nodes, "template": template}
        self.plane.call(
            "POST",
            f"/apis/batch/v1/namespaces/{TEAM}/jobs",
            {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec},
        )

    def split_gang(self, name: str, *, h100: int) -> None:
        """A Ray cluster: workers of one whole h100 node each, and a head on an l4 node of its own."""
        self.headed_gang(name, pod("l4"), h100=h100)

    def headed_gang(self, name: str, head: Json, *, h100: int) -> None:
        """A Ray cluster: workers of one whole h100 node each, and this head."""
        cluster = work("RayCluster", pod("h100"), count=h100)
        cluster["metadata"]["name"] = name
        cluster["spec"]["headGroupSpec"]["template"]["spec"] = head
        # Kueue's webhook, which does not run here, would write it.
        cluster["spec"]["suspend"] = True
        self.plane.call("POST", PATHS["RayCluster"], cluster)

    def rival(self, name: str, *, pool: str = "h100", priority: str = "") -> None:
        """A pod of another tenant that needs the same node."""
        spec = {**pod(pool), **({"priorityClassName": priority} if priority else {})}
        body = {"metadata": {"name": name, "namespace": RIVALS}, "spec": spec}
        self.plane.call("POST", f"/api/v1/namespaces/{RIVALS}/pods", body)

    def end(self, name: str, *, kind: str = "Job") -> None:
        """The job and its pods go."""
        self.managed.delete(f"{PATHS[kind]}/{name}")

    @contextmanager
    def without_manager(self) -> Iterator[None]:
        """Our manager is killed, and comes back when the block ends."""
        assert self.manager is not None
        self.manager.kill()
        try:
            yield
        finally:
            self.manager.start()

    def take(self, node: str) -> None:
        """The cloud ends the machine of a node, as it does with one that is reclaimed."""
        (claim,) = (each for each in self.claims() if each["status"].get("providerID") == f"kwok://{node}")
        self.plane.call("DELETE", f"{NODE_CLAIMS}/{claim['metadata']['name']}")

    def clear(self) -> None:
        """No work is left, and no node."""
        for namespace in (TEAM, RIVALS):
            body = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
            for kind in ("Job", "RayCluster"):
                self.plane.call("DELETE", PATHS[kind].replace(TEAM, namespace), body)
            self.plane.call("DELETE", f"/api/v1/namespaces/{namespace}/pods?gracePeriodSeconds=0")
        self.eventually("the work is gone", lambda: not self.pods() and not self.workloads())
        self.eventually("so are the placeholders", lambda: not self.items(PLACEHOLDERS))
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

    def held(self) -> list[str]:
        """Nodes with the taint of a gang."""
        return [
            each["metadata"]["name"]
            for each in self.items("/api/v1/nodes")
            if any(taint["key"] == names.HELD_TAINT_KEY for taint in each["spec"].get("taints") or ())
        ]

    def claims(self) -> list[Json]:
        return self.items(NODE_CLAIMS)

    def said(self, name: str) -> str:
        """What our check says about the gang."""
        return str(self.managed.entry(name).get("message", ""))

    def has_quota(self, name: str) -> bool:
        found = self.managed.workload(name)
        return found is not None and condition(found, "QuotaReserved")["status"] == "True"

    def workloads(self) -> list[Json]:
        return self.items(f"/apis/{names.KUEUE_API_VERSION}/namespaces/{TEAM}/workloads")

    def events(self, reason: str, *, namespace: str = TEAM) -> list[str]:
        """What events of this reason say."""
        found = self.items(f"/api/v1/namespaces/{namespace}/events")
        return [each["message"] for each in found if each["reason"] == reason]

    def eventually(self, what: str, reached: Callable[[], Any]) -> Any:
        return eventually(what, reached, told=self.explained)

    def explained(self) -> str:
        told = {
            "pods": [(each["metadata"]["name"], each["spec"].get("nodeName")) for each in self.pods()],
            "rivals": [
                (each["metadata"]["name"], each["spec"].get("nodeName")) for each in self.pods(RIVALS)
            ],
            "placeholders": [
                (each["metadata"]["name"], each["spec"].get("nodeName")) for each in self.items(PLACEHOLDERS)
            ],
            "events": [each["message"] for each in self.items(f"/api/v1/namespaces/{RIVALS}/events")],
            "claims": [(each["metadata"]["name"], each.get("status", {})) for each in self.claims()],
            "workloads": [each.get("status") for each in self.workloads()],
        }
        logs = [self.plane.folder / f"{name}.log" for name in ("karpenter", "manager")]
        tails = [log.read_text(errors="replace")[-4000:] for log in logs if log.exists()]
        return "\n".join([json.dumps(told, indent=1), *tails])


@contextmanager
def world(folder: Path, *, source: Path = STACK, audit: Sequence[str] = ()) -> Iterator[World]:
    """A fresh one, with its queues and NodePools and our manager, until the block ends. `audit`: flags of the
    caller's own audit log, in place of the one about rights.
    """
    stack = load(source)
    programs = envtest.found(*_NEEDED) or built.absent(
        ", ".join(envtest.missing(*_NEEDED)), build="make test-karpenter"
    )
    flags = (STRICT_OWNERS, *(audit or audited(folder, Scheduler.KUEUE)))
    kinds = [
        *definitions(programs),
        *(gangpolicy.crd(), queuetree.crd()),
        *programs.kinds(_KUBERAY, below="crd/bases"),
    ]
    with envtest.control_plane(folder, programs, kinds=kinds, flags=flags) as plane, ExitStack() as held:
        define(plane, programs)
        for item in (*(each for each in registered(stack) if each["kind"] in _OURS), *limits(stack)):
            apply(plane, item)
        held.enter_context(envtest.controllers(plane, programs, _CONTROLLERS, flags=_PATIENT))
        held.enter_context(envtest.scheduler(plane, programs))
        held.enter_context(envtest.kwok(plane, programs))
        held.enter_context(envtest.karpenter(plane, programs, TYPES))
        config = kueue.manager_config(stack)
        process = held.enter_context(envtest.kueue(plane, programs, config=config))
        made = World(Managed(plane, stack, process, programs, audits_rights=not audit))
        made.managed.begin()
        apply(plane, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": RIVALS}})
        for name, value in PRIORITIES.items():
            apply(plane, _priority(name, value))
        for pool in _POOLS:
            made.limit(pool, None)
        made.manager = held.enter_context(made.managed.manager("--read-events"))
        yield made


@dataclass(slots=True)
class Witness:
    """Looks at the gang all the time, in a thread. `started`: pods of it that were ever seen."""

    world: World
    name: str
    started: set[str] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)

    @contextmanager
    def watching(self) -> Iterator[Witness]:
        stopped = threading.Event()

        def watch() -> None:
            while not stopped.wait(0.05):
                with suppress(OSError):
                    self.look()

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            stopped.set()
            thread.join(30)
            self.look()

    def look(self) -> None:
        pods = (each for each in self.world.pods() if _job_of(each) == self.name)
        self.started |= {each["metadata"]["name"] for each in pods}
        self.nodes |= set(self.world.nodes())


def pod(pool: str, *, gpus: bool = True) -> Json:
    """The spec of a pod that needs a whole node of the pool, or room beside its GPUs."""
    gpu = {names.GPU_RESOURCE: "1" if pool == "l4" else "8"} if gpus else {}
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
    labels = item["metadata"].get("labels", {})
    return str(labels.get("batch.kubernetes.io/job-name") or labels.get("ray.io/cluster", ""))


def _priority(name: str, value: int) -> Json:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "preemptionPolicy": "Never",
    }
