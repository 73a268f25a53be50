"""KubeRay, from its own kustomize tree: its CRDs as they are, its operator with what is ours laid over it.

Decides the overlay: namespace, image, concurrency, resources, nodes. The CRDs are four megabytes: as
resources of the Kubernetes provider they made a preview twenty times slower, so they go as one Bundle, which
applies them by server-side apply and waits until they are served.
"""

import atexit
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
import yaml

from components.bundle import Bundle, BundleProvider
from components.footprint import Footprint
from components.objects import KubernetesObject
from model import names
from model.render.manifest import manifest
from stackconfig.artifacts import Artifacts

# One reconcile at a time, the operator's default, makes a hundred clusters wait for each other.
_CONCURRENCY = 10

# With generated names, KubeRay makes a second head when the API server dies before it has answered for the
# first, and then gives up on the cluster: "2 head pods found". With a fixed name the second try finds it.
_ONE_HEAD = {"name": "ENABLE_DETERMINISTIC_HEAD_POD_NAME", "value": "true"}

# libyaml's loader where PyYAML was built with it: ten times faster, and these are megabytes.
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class KubeRay(pulumi.ComponentResource):
    """`serving`: depend on it and the Ray kinds exist and are reconciled."""

    def __init__(
        self,
        name: str,
        *,
        artifacts: Artifacts,
        footprint: Footprint,
        provider: kubernetes.Provider,
        bundles: BundleProvider,
        depends_on: list[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("muster:index:KubeRay", name, None, opts)
        self.namespace = KubernetesObject(
            f"{name}-namespace",
            manifest("v1", "Namespace", names.RAY_NAMESPACE),
            opts=pulumi.ResourceOptions(parent=self, provider=provider, depends_on=depends_on),
        )
        tree = artifacts.kustomization("kuberay").resolve().parent
        self.crds = Bundle(
            f"{name}-crds",
            manifests={file.stem: _compact(file) for file in sorted((tree / "crd" / "bases").glob("*.yaml"))},
            opts=pulumi.ResourceOptions(parent=self, provider=bundles, depends_on=depends_on),
        )
        overlaid = overlay(artifacts.image("kuberay"), footprint=footprint)
        self.operator = kubernetes.kustomize.v2.Directory(
            name,
            directory=_written(overlaid, bases=[tree / "rbac", tree / "manager"]),
            opts=pulumi.ResourceOptions(
                parent=self, provider=provider, depends_on=[self.namespace, self.crds]
            ),
        )
        self.serving: pulumi.Resource = self.operator
        self.register_outputs({})


def overlay(image: str, *, footprint: Footprint) -> dict[str, Any]:
    """The kustomization over KubeRay's own; `resources` is added where it is written."""
    container = {
        "name": "kuberay-operator",
        "image": image,
        "args": [f"--reconcile-concurrency={_CONCURRENCY}"],
        "env": [_ONE_HEAD],
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
        # By target: in its own file the Deployment stands in a namespace that the tree replaces.
        "patches": [
            {
                "patch": json.dumps(deployment),
                "target": {"kind": "Deployment", "name": "kuberay-operator"},
            }
        ],
    }


def _written(overlaid: dict[str, Any], *, bases: list[Path]) -> str:
    """A directory with the overlay. kustomize takes its bases by relative paths alone."""
    folder = Path(tempfile.mkdtemp(prefix="muster-kuberay-")).resolve()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    relative = [os.path.relpath(base, folder) for base in bases]
    (folder / "kustomization.yaml").write_text(json.dumps(overlaid | {"resources": relative}))
    return str(folder)


def _compact(file: Path) -> str:
    """A CRD in a third of its size: the engine writes its whole state down after each step."""
    return json.dumps(yaml.load(file.read_text(), Loader=_Loader), separators=(",", ":"))  # noqa: S506 - safe
