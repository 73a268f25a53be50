"""The GPU Operator, from its chart, and what it needs around it.

Decides the order: the namespace and its quota stand before the pods that need them. What the chart is told is
the model's.
"""

import pulumi

from muster.components.bundle import Bundle, text
from muster.components.charts import release
from muster.components.context import Ground
from muster.components.objects import KubernetesObject
from muster.model import gpu_operator
from muster.model.gpu_operator import Installation
from muster.render import gpu


class GpuOperator(pulumi.ComponentResource):
    """`serving`: depend on it and the operator runs; GPUs are there once their nodes are."""

    def __init__(
        self,
        name: str,
        *,
        wanted: Installation,
        ground: Ground,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("muster:index:GpuOperator", name, None, opts)
        self.namespace = KubernetesObject(
            f"{name}-namespace",
            gpu.namespace(),
            opts=pulumi.ResourceOptions(parent=self, provider=ground.provider),
        )
        before: list[pulumi.Resource] = [self.namespace]
        around = gpu.objects(wanted, pause_image=ground.artifacts.image("pause"))
        if around:
            before.append(
                Bundle(
                    f"{name}-nodes",
                    manifests={"objects": text(around)},
                    opts=pulumi.ResourceOptions(
                        parent=self, provider=ground.bundles, depends_on=[self.namespace]
                    ),
                )
            )
        self.release = release(
            name,
            ground.artifacts.chart("gpu-operator"),
            namespace=gpu_operator.NAMESPACE,
            values=gpu_operator.values(wanted, control_nodes=ground.footprint.node_selector()),
            opts=pulumi.ResourceOptions(parent=self, provider=ground.provider, depends_on=before),
        )
        self.serving: pulumi.Resource = self.release
        self.register_outputs({})
