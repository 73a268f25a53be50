"""What `up` passes to the supervisor: units, nodes, programs.

A file in the run directory, written once and read once, so that the supervisor needs no arguments that
could differ from what `status` and `logs` read later.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from muster.local.cluster.local_cluster import LocalCluster
from muster.local.cluster.node import NodeSpec
from muster.local.cluster.units import ReadinessGate, Unit

# The environment in which `pulumi`, `kubectl` and the examples work on a local cluster.


def environment(cluster: LocalCluster) -> dict[str, str]:
    """What `pulumi`, `kubectl` and the examples need to work on this local cluster and on no other."""
    artifacts = json.loads(cluster.artifacts.read_text())
    tools, path = artifacts["path"], os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
    return {
        "KUBECONFIG": str(cluster.kubeconfig),
        "MUSTER_ARTIFACTS": str(cluster.artifacts),
        "PULUMI_BACKEND_URL": f"file://{cluster.pulumi_state}",
        "PULUMI_CONFIG_PASSPHRASE": "",  # the state dies with the cluster and holds nothing but its objects
        "PULUMI_HOME": str(cluster.state / "pulumi-home"),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "RAY_IMAGE": artifacts["images"].get("ray", ""),  # what stands in the examples in its place
        "PATH": path if tools in path.split(":") else f"{tools}:{path}",
    }


@dataclass(frozen=True, slots=True)
class Settings:
    """What the supervisor starts; `stores` maps a kind of node to its containerd root."""

    units: tuple[Unit, ...]
    nodes: tuple[NodeSpec, ...]
    kubelet: str
    pause_image: str
    stores: dict[str, Path]

    def write(self, cluster: LocalCluster) -> None:
        content = {
            "units": [_unit_to_json(unit) for unit in self.units],
            "nodes": [asdict(node) for node in self.nodes],
            "kubelet": self.kubelet,
            "pause_image": self.pause_image,
            "stores": {kind: str(path) for kind, path in self.stores.items()},
        }
        (cluster.run / "settings.json").write_text(json.dumps(content, indent=1))

    @staticmethod
    def read(cluster: LocalCluster) -> Settings:
        content = json.loads((cluster.run / "settings.json").read_text())
        return Settings(
            units=tuple(_unit_from_json(unit) for unit in content["units"]),
            nodes=tuple(NodeSpec.parse(node) for node in content["nodes"]),
            kubelet=content["kubelet"],
            pause_image=content["pause_image"],
            stores={kind: Path(path) for kind, path in content["stores"].items()},
        )


def _unit_to_json(unit: Unit) -> dict[str, object]:
    return {
        "name": unit.name,
        "argv": list(unit.argv),
        "environment": dict(unit.environment),
        "after": {
            "port": unit.after.port,
            "file": str(unit.after.file) if unit.after.file else None,
            "api_ready": unit.after.api_ready,
        },
    }


def _unit_from_json(content: dict[str, object]) -> Unit:
    after = content["after"]
    argv, environment = content["argv"], content["environment"]
    if not isinstance(after, dict) or not isinstance(argv, list) or not isinstance(environment, dict):
        raise TypeError("settings.json was not written by this version of the local cluster")
    file = after["file"]
    return Unit(
        name=str(content["name"]),
        argv=tuple(str(word) for word in argv),
        environment={str(key): str(value) for key, value in environment.items()},
        after=ReadinessGate(
            port=after["port"], file=Path(file) if file else None, api_ready=bool(after["api_ready"])
        ),
    )
