"""Karpenter as a process of the caller: the released controller with a stand-in for the cloud behind it.

What the cloud sells is given at the start; what it has in stock, and how it fails, is written to a ConfigMap
at any time (muster/local/build/programs/karpenter/main.go). Nodes are KWOK's.
"""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from muster.local.envtest.control_plane import ControlPlane
from muster.local.envtest.process import Process, free_port
from muster.local.envtest.programs import Programs
from muster.model.names import GPU_RESOURCE, POOL_LABEL

PROGRAM: Final = "karpenter"
CRDS: Final = ("karpenter-crds", "karpenter-kwok-crds")
NODE_CLAIMS: Final = "/apis/karpenter.sh/v1/nodeclaims"
NODE_POOLS: Final = "/apis/karpenter.sh/v1/nodepools"
_NAMESPACE: Final = "kube-system"
_CLOUD: Final = "karpenter-cloud"
_CLOUD_PATH: Final = f"/api/v1/namespaces/{_NAMESPACE}/configmaps/{_CLOUD}"
_CLASS: Final = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
_CLASS_PATH: Final = "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses/default"
_MERGE: Final = "application/merge-patch+json"
_BOOT_SECONDS: Final = 120.0
_ON_DEMAND: Final = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    """What the cloud sells, in each of the zones."""

    name: str
    cpu: str
    memory: str
    gpus: int = 0
    price: float = 1.0
    zones: tuple[str, ...] = ("zone-a",)

    def offered(self) -> dict[str, Any]:
        """As Karpenter's KWOK provider reads it."""
        room = {"cpu": self.cpu, "memory": self.memory, "pods": "110", "ephemeral-storage": "200Gi"}
        return {
            "name": self.name,
            "architecture": "amd64",
            "operatingSystems": ["linux"],
            "resources": {**room, **({GPU_RESOURCE: str(self.gpus)} if self.gpus else {})},
            "offerings": [
                {"Price": self.price, "Available": True, "Requirements": [_ON_DEMAND, _zone(zone)]}
                for zone in self.zones
            ],
        }


def _zone(name: str) -> dict[str, Any]:
    return {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [name]}


def define(plane: ControlPlane, programs: Programs) -> None:
    """Karpenter's kinds, and the class of all nodes here."""
    plane.define([kind for asset in CRDS for kind in programs.kinds(asset)])
    boot(plane, "0s")


@contextmanager
def karpenter(plane: ControlPlane, programs: Programs, types: Sequence[InstanceType]) -> Iterator[Process]:
    """Karpenter, acting, until the block ends."""
    file, health = plane.folder / "instance-types.json", free_port()
    file.write_text(json.dumps([each.offered() for each in types]))
    argv = [
        programs.program(PROGRAM),
        "--disable-leader-election",
        f"--metrics-port={free_port()}",
        f"--health-probe-port={health}",
        f"--instance-types-file-path={file}",
    ]
    environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig()), "SYSTEM_NAMESPACE": _NAMESPACE}
    process = Process(PROGRAM, argv, log=plane.folder / "karpenter.log", environment=environment)
    process.start()
    try:
        process.await_(lambda: _is_ready(health), seconds=_BOOT_SECONDS)
        yield process
    finally:
        process.kill()


def node_pool(
    name: str, types: Sequence[str], *, gpus: int | None = None, consolidate_after: str = "0s"
) -> dict[str, Any]:
    """A NodePool of these instance types, with the label and the taint that Muster expects of a pool. `gpus`:
    its limit.
    """
    wanted = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": list(types)}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {
                "metadata": {"labels": {POOL_LABEL: name}},
                "spec": {
                    "nodeClassRef": _CLASS,
                    "requirements": [wanted],
                    "expireAfter": "Never",
                    "taints": [{"key": GPU_RESOURCE, "value": "present", "effect": "NoSchedule"}],
                },
            },
            "disruption": {
                "consolidationPolicy": "WhenEmptyOrUnderutilized",
                "consolidateAfter": consolidate_after,
            },
            **({"limits": {GPU_RESOURCE: str(gpus)}} if gpus is not None else {}),
        },
    }


def stock(plane: ControlPlane, has: Mapping[str, str | None]) -> None:
    """Change what the cloud has: instances by `TYPE_ZONE`, and the words in the program's own description.
    None takes a line away.
    """
    empty = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": _CLOUD, "namespace": _NAMESPACE}}
    plane.apply(empty, _CLOUD_PATH)
    plane.call("PATCH", _CLOUD_PATH, {"data": dict(has)}, content_type=_MERGE)


def boot(plane: ControlPlane, takes: str) -> None:
    """How long the boot of an instance takes that is bought from now on."""
    item = {
        "apiVersion": "karpenter.kwok.sh/v1alpha1",
        "kind": "KWOKNodeClass",
        "metadata": {"name": "default"},
        "spec": {"nodeRegistrationDelay": takes},
    }
    plane.apply(item, _CLASS_PATH)


def _is_ready(port: int) -> bool:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
        return bool(answer.status == 200)
