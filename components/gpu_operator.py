"""The GPU Operator, from its chart, and what it needs around it.

Decides the order: the namespace and its quota stand before the pods that need them. What the chart is told is
the model's.
"""

import pulumi
import pulumi_kubernetes as kubernetes

from components.bundle import Bundle, BundleProvider, text
from components.charts import release
from components.footprint import Footprint
from components.objects import KubernetesObject
from model import gpu_operator
from model.gpu_operator import Installation
from model.render import gpu
from stackconfig.artifacts import Artifacts


class GpuOperator(pulumi.ComponentResource):
    """`serving`: depend on it and the operator runs; GPUs are there once their nodes are."""

    def __init__(
        self,
        name: str,
        *,
        wanted: Installation,
        artifacts: Artifacts,
        footprint: Footprint,
        provider: kubernetes.Provider,
        bundles: BundleProvider,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("muster:index:GpuOperator", name, None, opts)
        self.namespace = KubernetesObject(
            f"{name}-namespace",
            gpu.namespace(),
            opts=pulumi.ResourceOptions(parent=self, provider=provider),
        )
        before: list[pulumi.Resource] = [self.namespace]
        around = gpu.objects(wanted, pause_image=artifacts.image("pause"))
        if around:
            before.append(
                Bundle(
                    f"{name}-nodes",
                    manifests={"objects": text(around)},
                    opts=pulumi.ResourceOptions(parent=self, provider=bundles, depends_on=[self.namespace]),
                )
            )
        self.release = release(
            name,
            artifacts.chart("gpu-operator"),
            namespace=gpu_operator.NAMESPACE,
            values=gpu_operator.values(wanted, control_nodes=footprint.node_selector()),
            opts=pulumi.ResourceOptions(parent=self, provider=provider, depends_on=before),
        )
        self.serving: pulumi.Resource = self.release
        self.register_outputs({})
