"""The KAI Scheduler, from its own chart as one Helm release, and its shards.

Responsible for the order: the chart brings the CRDs and the operator, which makes a scheduler of every shard.
The chart's values are the model's `chart_values`.
"""

from dataclasses import dataclass

import pulumi

from muster.components.bundle import Bundle, immutable, text
from muster.components.component import Component
from muster.components.context import KubernetesObject, PlatformContext
from muster.components.gpu_operator import release
from muster.model import names
from muster.model.programs import Program
from muster.model.stack import Stack
from muster.render import kai
from muster.render.manifest import manifest


def install(name: str, context: PlatformContext, opts: pulumi.ResourceOptions) -> "Kai":
    return Kai(name, KaiArgs(context=context), opts=opts)


def shared_objects(_: Stack) -> None:
    return None


def departments() -> str:
    return "departments"


@dataclass(frozen=True, slots=True, kw_only=True)
class KaiArgs:
    """`context`: the cluster, and the chart to install. Its stack's `kai` section sets shards, GPU sharing
    and topologies; a topology whose levels change is replaced, and work that names it waits meanwhile.

    KAI replaces the scheduler of the pods that name it. The chart's namespace and names are fixed: a cluster
    holds one KAI. With `kai.install` false in the stack the operator is the cluster's own, and only shards
    and topologies are made. A local cluster runs KAI's programs itself (`muster local up --scheduler kai`).
    """

    context: PlatformContext


class Kai(Component):
    """`serving`: depend on it and Queues are accepted and a scheduler acts on them."""

    def __init__(self, name: str, args: KaiArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("muster:schedulers:Kai", name, opts)
        context = args.context
        before = [self._release(name, context)] if context.stack.installs(Program.KAI) else None
        child = self.child_options(provider=context.bundles, after=before)
        # The labels of a topology's levels are immutable.
        self.topologies = [
            Bundle(
                f"{name}-topology-{each['metadata']['name']}",
                manifests={each["metadata"]["name"]: text([each])},
                opts=immutable(child),
            )
            for each in kai.topologies(context.stack)
        ]
        self.shards = Bundle(
            f"{name}-shards", manifests={"shards": text(kai.shards(context.stack))}, opts=child
        )
        self.serving: pulumi.Resource = self.shards
        self.register_outputs({})

    def _release(self, name: str, context: PlatformContext) -> pulumi.Resource:
        namespace = KubernetesObject(
            f"{name}-namespace",
            manifest("v1", "Namespace", names.KAI_NAMESPACE),
            opts=self.child_options(provider=context.provider),
        )
        values = kai.chart_values(
            context.stack,
            node_selector=context.sizing.node_selector(),
            replicas=context.sizing.manager_replicas,
        )
        return release(
            name,
            context.artifacts.chart("kai"),
            release_name="kai",
            namespace=names.KAI_NAMESPACE,
            values=values,
            opts=self.child_options(provider=context.provider, after=[namespace]),
        )
