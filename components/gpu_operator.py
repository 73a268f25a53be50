"""The GPU Operator, from its chart, and what it needs around it.

Responsible for the order: the namespace and its quota exist before the pods that need them. The chart's
values are the model's.
"""

from dataclasses import dataclass

import pulumi

from muster.components.bundle import Bundle, text
from muster.components.charts import release
from muster.components.component import Component
from muster.components.context import PlatformContext
from muster.components.objects import KubernetesObject
from muster.errors import MusterError
from muster.model import gpu_operator
from muster.model.gpu_operator import Installation
from muster.render import gpu


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuOperatorArgs:
    """`context`: the cluster, and the chart and images to install.

    `installation`: which of the operator's parts run. None takes those that fit the stack's pools and cloud.
    A part that the cloud runs as well (GKE's device plugin, for example) advertises every GPU twice.
    """

    context: PlatformContext
    installation: Installation | None = None


class GpuOperator(Component):
    """`serving`: depend on it and the operator runs. GPUs are advertised once their nodes exist."""

    def __init__(self, name: str, args: GpuOperatorArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("muster:index:GpuOperator", name, opts)
        context = args.context
        wanted = args.installation or gpu_operator.installation(context.stack)
        if wanted is None:
            raise MusterError(
                "GpuOperator: the stack has no pool whose nodes need the GPU Operator.",
                fix="leave the component out, or give `installation` to install it all the same.",
            )
        self.namespace = KubernetesObject(
            f"{name}-namespace", gpu.namespace(), opts=self.child_options(provider=context.provider)
        )
        before: list[pulumi.Resource] = [self.namespace]
        around = gpu.objects(wanted, pause_image=context.artifacts.image("pause"))
        if around:
            before.append(
                Bundle(
                    f"{name}-nodes",
                    manifests={"objects": text(around)},
                    opts=self.child_options(provider=context.bundles, after=[self.namespace]),
                )
            )
        self.release = release(
            name,
            context.artifacts.chart("gpu-operator"),
            release_name="gpu-operator",
            namespace=gpu_operator.NAMESPACE,
            values=gpu_operator.values(wanted, control_nodes=context.sizing.node_selector()),
            opts=self.child_options(provider=context.provider, after=before),
        )
        self.serving: pulumi.Resource = self.release
        self.register_outputs({})
