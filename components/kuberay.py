"""KubeRay, from its own kustomize tree, with what is ours laid over it.

Decides the overlay: namespace, image, concurrency, resources, nodes. The tree goes to the cluster as it
stands through the Kubernetes provider, which renders it itself: its CRDs are four megabytes, and passing them
through this program would cost seconds in every preview.
"""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from components.footprint import Footprint
from components.objects import KubernetesObject
from model import names
from model.render.manifest import manifest
from stackconfig.artifacts import Artifacts

# One reconcile at a time, the operator's default, makes a hundred clusters wait for each other.
_CONCURRENCY = 10


class KubeRay(pulumi.ComponentResource):
    """`serving`: depend on it and the Ray kinds exist and are reconciled."""

    def __init__(
        self,
        name: str,
        *,
        artifacts: Artifacts,
        footprint: Footprint,
        provider: kubernetes.Provider,
        depends_on: list[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("muster:index:KubeRay", name, None, opts)
        self.namespace = KubernetesObject(
            f"{name}-namespace",
            manifest("v1", "Namespace", names.RAY_NAMESPACE),
            opts=pulumi.ResourceOptions(parent=self, provider=provider, depends_on=depends_on),
        )
        overlaid = overlay(artifacts.image("kuberay"), footprint=footprint)
        self.operator = kubernetes.kustomize.v2.Directory(
            name,
            directory=_written(overlaid, base=artifacts.kustomization("kuberay")),
            opts=pulumi.ResourceOptions(parent=self, provider=provider, depends_on=[self.namespace]),
        )
        self.serving: pulumi.Resource = self.operator
        self.register_outputs({})


def overlay(image: str, *, footprint: Footprint) -> dict[str, Any]:
    """The kustomization over KubeRay's own; `resources` is added where it is written."""
    container = {
        "name": "kuberay-operator",
        "image": image,
        "args": [f"--reconcile-concurrency={_CONCURRENCY}"],
        "resources": footprint.kuberay.resources(),
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "kuberay-operator"},
        "spec": {
            "template": {"spec": {"nodeSelector": footprint.node_selector(), "containers": [container]}}
        },
    }
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": names.RAY_NAMESPACE,
        "patches": [{"patch": json.dumps(deployment)}],
    }


def _written(overlaid: dict[str, Any], *, base: Path) -> str:
    """A directory with the overlay. kustomize takes its bases by relative paths alone."""
    folder = Path(tempfile.mkdtemp(prefix="muster-kuberay-")).resolve()
    relative = os.path.relpath(base.resolve(), folder)
    (folder / "kustomization.yaml").write_text(json.dumps(overlaid | {"resources": [relative]}))
    return str(folder)
