"""KubeRay: from its published chart, or from its own kustomize tree where that was built here.

Decides how its CRDs and operator are installed, and installs what guards Ray's kinds. The tree's CRDs are
four megabytes: as resources of the Kubernetes provider they made a preview twenty times slower, so they go as
one Bundle, which applies them by server-side apply and waits until they are served.
"""

import json
import os
import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
import yaml

from muster.components import interrupts
from muster.components.bundle import Bundle, text
from muster.components.charts import release
from muster.components.context import Ground
from muster.components.objects import KubernetesObject
from muster.model import kuberay, names
from muster.model.stack import retains_crds
from muster.render import ray
from muster.render.manifest import manifest

# libyaml's loader where PyYAML was built with it: ten times faster, and these are megabytes.
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class KubeRay(pulumi.ComponentResource):
    """`serving`: depend on it and the Ray kinds exist, are guarded, and are reconciled."""

    def __init__(
        self,
        name: str,
        *,
        ground: Ground,
        depends_on: list[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("muster:index:KubeRay", name, None, opts)
        self._ground = ground
        operator = kuberay.Operator(
            image=ground.artifacts.image("kuberay"),
            scheduler=ground.stack.scheduler,
            resources=ground.footprint.kuberay.resources(),
            node_selector=ground.footprint.node_selector(),
        )
        self.namespace = KubernetesObject(
            f"{name}-namespace",
            manifest("v1", "Namespace", names.RAY_NAMESPACE),
            opts=pulumi.ResourceOptions(parent=self, provider=ground.provider, depends_on=depends_on),
        )
        # In force before the first Ray object can be made.
        self.admission = Bundle(
            f"{name}-admission",
            manifests={"policies": text(ray.admission(ground.stack.ray))},
            opts=pulumi.ResourceOptions(parent=self, provider=ground.bundles, depends_on=depends_on),
        )
        if ground.artifacts.has_kustomization("kuberay"):
            self.serving = self._from_tree(name, operator, depends_on)
        else:
            self.serving = self._from_chart(name, operator)
        self.register_outputs({})

    def _from_chart(self, name: str, operator: kuberay.Operator) -> pulumi.Resource:
        """Its CRDs stand in the chart's own folder for them: Helm makes them once, and never deletes them."""
        return release(
            name,
            self._ground.artifacts.chart("kuberay"),
            namespace=names.RAY_NAMESPACE,
            values=operator.chart_values(),
            opts=pulumi.ResourceOptions(
                parent=self, provider=self._ground.provider, depends_on=[self.namespace, self.admission]
            ),
        )

    def _from_tree(
        self, name: str, operator: kuberay.Operator, depends_on: list[pulumi.Resource]
    ) -> pulumi.Resource:
        ground = self._ground
        tree = ground.artifacts.kustomization("kuberay").resolve().parent
        crds = Bundle(
            f"{name}-crds",
            manifests={file.stem: _compact(file) for file in sorted((tree / "crd" / "bases").glob("*.yaml"))},
            opts=pulumi.ResourceOptions(
                parent=self,
                provider=ground.bundles,
                depends_on=depends_on,
                retain_on_delete=retains_crds(ground.stack.artifacts),
            ),
        )
        return kubernetes.kustomize.v2.Directory(
            name,
            directory=_written(overlay(operator), bases=[tree / "rbac", tree / "manager"]),
            opts=pulumi.ResourceOptions(
                parent=self, provider=ground.provider, depends_on=[self.namespace, self.admission, crds]
            ),
        )


def overlay(operator: kuberay.Operator) -> dict[str, Any]:
    """The kustomization over KubeRay's own; `resources` is added where it is written."""
    container = {
        "name": "kuberay-operator",
        "image": operator.image,
        "args": operator.arguments(),
        "env": [dict(kuberay.ONE_HEAD)],
        "resources": dict(operator.resources),
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "kuberay-operator"},
        "spec": {
            "template": {"spec": {"nodeSelector": dict(operator.node_selector), "containers": [container]}}
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
    interrupts.at_the_end(partial(shutil.rmtree, folder, ignore_errors=True))
    relative = [os.path.relpath(base, folder) for base in bases]
    (folder / "kustomization.yaml").write_text(json.dumps(overlaid | {"resources": relative}))
    return str(folder)


def _compact(file: Path) -> str:
    """A CRD in a third of its size: the engine writes its whole state down after each step."""
    return json.dumps(yaml.load(file.read_text(), Loader=_Loader), separators=(",", ":"))  # noqa: S506 - safe
