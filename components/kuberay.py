"""KubeRay: from its published chart, or from its own kustomize tree where that was built here.

Responsible for how its CRDs and operator are installed, for the operator's settings in the two formats of
these two ways (concurrency, the fixed head name, the batch scheduler), and for the policies that guard Ray's
kinds. The tree's CRDs are four megabytes: as resources of the Kubernetes provider they made a preview twenty
times slower, so they go as one Bundle, which applies them by server-side apply and waits until they are
served.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pulumi
import pulumi_kubernetes as kubernetes

from muster.components import interrupts
from muster.components.bundle import Bundle, text
from muster.components.component import Component
from muster.components.context import KubernetesObject, PlatformContext
from muster.components.gpu_operator import release
from muster.model import names
from muster.model.programs import Program
from muster.model.stack import Scheduler, retains_crds
from muster.render import observability, ray
from muster.render.manifest import manifest

# One reconcile at a time, the operator's default, makes a hundred clusters wait for each other
# (kuberay issue 3909: a scale-up of 500 workers delayed all others by ten minutes; with 10 at a time 10,000
# pods took 3 min 20 s).
CONCURRENCY: Final = 10

# The operator's own default; its liveness probe asks there as well.
METRICS_PORT: Final = 8080

# With generated names, KubeRay makes a second head when the API server dies before it has answered for the
# first, and then gives up on the cluster: "2 head pods found". With a fixed name the second try finds it.
ONE_HEAD: Final[Mapping[str, str]] = {"name": "ENABLE_DETERMINISTIC_HEAD_POD_NAME", "value": "true"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """One installation. `resources` and `node_selector` are Kubernetes' own spelling."""

    image: str
    scheduler: Scheduler
    resources: Mapping[str, Any]
    node_selector: Mapping[str, str]

    @property
    def batch_scheduler(self) -> str:
        """KubeRay's setting, supported from 1.5 on, the minimum version of every stack. Empty where
        Kubernetes' own scheduler places pods; any value would assign them to one that does not exist.
        """
        return self.scheduler.traits.pod_scheduler

    def arguments(self) -> list[str]:
        """The program's flags, for its plain manifests."""
        flags = [f"--reconcile-concurrency={CONCURRENCY}"]
        return [*flags, f"--batch-scheduler={self.batch_scheduler}"] if self.batch_scheduler else flags

    def chart_values(self) -> dict[str, Any]:
        """The same for its chart."""
        repository, _, tag = self.image.rpartition(":")
        return {
            "image": {"repository": repository, "tag": tag, "pullPolicy": "IfNotPresent"},
            "nodeSelector": dict(self.node_selector),
            "resources": dict(self.resources),
            "reconcileConcurrency": CONCURRENCY,
            "env": [dict(ONE_HEAD)],
            "batchScheduler": {"name": self.batch_scheduler},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeRayArgs:
    """`context`: the cluster, and the chart (or kustomize tree) and image to install. Its stack names the
    scheduler that KubeRay's pods are made for: with another one than the cluster runs, Ray clusters never
    start.

    With `kuberay.install` false in the stack only the admission policies are made: the operator is the
    cluster's own.
    """

    context: PlatformContext


class KubeRay(Component):
    """`serving`: depend on it and the Ray kinds are served, guarded by admission policies, and reconciled."""

    def __init__(self, name: str, args: KubeRayArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("muster:index:KubeRay", name, opts)
        self._context = context = args.context
        # In force before the first Ray object can be made.
        self.admission = Bundle(
            f"{name}-admission",
            manifests={"policies": text(ray.admission(context.stack.ray))},
            opts=self.child_options(provider=context.bundles),
        )
        self.serving: pulumi.Resource = (
            self._operator(name) if context.stack.installs(Program.KUBERAY) else self.admission
        )
        self.register_outputs({})

    def _operator(self, name: str) -> pulumi.Resource:
        context = self._context
        operator = Operator(
            image=context.artifacts.image("kuberay"),
            scheduler=context.stack.scheduler,
            resources=context.sizing.kuberay.resources(),
            node_selector=context.sizing.node_selector(),
        )
        namespace = KubernetesObject(
            f"{name}-namespace",
            manifest("v1", "Namespace", names.RAY_NAMESPACE),
            opts=self.child_options(provider=context.provider),
        )
        KubernetesObject(
            f"{name}-network",
            observability.reach(
                context.stack, "kuberay", namespace=names.RAY_NAMESPACE, metrics=METRICS_PORT
            ),
            opts=self.child_options(provider=context.provider, after=[namespace]),
        )
        if context.artifacts.has_kustomization("kuberay"):
            return self._from_tree(name, operator, namespace)
        return self._from_chart(name, operator, namespace)

    def _from_chart(self, name: str, operator: Operator, namespace: KubernetesObject) -> pulumi.Resource:
        """Its CRDs are in the chart's `crds` folder: Helm makes them once and never changes them."""
        return release(
            name,
            self._context.artifacts.chart("kuberay"),
            release_name="kuberay",
            namespace=names.RAY_NAMESPACE,
            values=operator.chart_values(),
            opts=self.child_options(provider=self._context.provider, after=[namespace, self.admission]),
        )

    def _from_tree(self, name: str, operator: Operator, namespace: KubernetesObject) -> pulumi.Resource:
        context = self._context
        tree = context.artifacts.kustomization("kuberay").resolve().parent
        kept = pulumi.ResourceOptions(retain_on_delete=retains_crds(context.stack.artifacts))
        files = sorted((tree / "crd" / "bases").glob("*.yaml"))
        crds = Bundle(
            f"{name}-crds",
            manifests={file.stem: file.read_text() for file in files},
            opts=pulumi.ResourceOptions.merge(self.child_options(provider=context.bundles), kept),
        )
        return kubernetes.kustomize.v2.Directory(
            name,
            directory=_write_overlay(overlay(operator), bases=[tree / "rbac", tree / "manager"]),
            opts=self.child_options(provider=context.provider, after=[namespace, self.admission, crds]),
        )


def overlay(operator: Operator) -> dict[str, Any]:
    """The kustomization over KubeRay's own; `resources` is added where it is written."""
    container = {
        "name": "kuberay-operator",
        "image": operator.image,
        "args": operator.arguments(),
        "env": [dict(ONE_HEAD)],
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
    # Pulumi waits ten seconds more after the Service has its pods, and nothing but Prometheus calls it.
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kuberay-operator", "annotations": {"pulumi.com/skipAwait": "true"}},
    }
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": names.RAY_NAMESPACE,
        # By target: the file of the Deployment names a namespace that the tree replaces.
        "patches": [
            {"patch": json.dumps(body), "target": {"kind": body["kind"], "name": "kuberay-operator"}}
            for body in (deployment, service)
        ],
    }


def _write_overlay(overlaid: dict[str, Any], *, bases: list[Path]) -> str:
    """A directory with the overlay. kustomize takes its bases by relative paths alone."""
    folder = Path(tempfile.mkdtemp(prefix="muster-kuberay-")).resolve()
    interrupts.at_the_end(partial(shutil.rmtree, folder, ignore_errors=True))
    relative = [os.path.relpath(base, folder) for base in bases]
    (folder / "kustomization.yaml").write_text(json.dumps(overlaid | {"resources": relative}))
    return str(folder)
