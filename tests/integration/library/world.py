"""What the tests of the library share: a cluster with the real Kueue, and stacks of its programs."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from tests.clouds.engine import ROOT, Workspace
from tests.envtest import ControlPlane

EXAMPLES: Final = ROOT / "examples" / "library"
KUEUE: Final = "/apis/kueue.x-k8s.io/v1beta2"
Engine = Callable[..., Workspace]


@dataclass(slots=True)
class Cluster:
    plane: ControlPlane
    folder: Path

    def names(self, path: str) -> set[str]:
        return {each["metadata"]["name"] for each in self.plane.call("GET", path)["items"]}

    def queues(self) -> set[str]:
        return self.names(f"{KUEUE}/clusterqueues")

    def kubeconfig(self, context: str) -> str:
        """A kubeconfig whose only context, the current one, has this name."""
        config: dict[str, Any] = yaml.safe_load(self.plane.kubeconfig().read_text())
        (entry,) = config["contexts"]
        return json.dumps({**config, "contexts": [{**entry, "name": context}], "current-context": context})


def configure(made: Workspace, **values: str) -> None:
    for key, value in values.items():
        made.cli("config", "set", "--secret", "--stack", made.stack, key, value)
