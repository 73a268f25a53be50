"""The KAI Scheduler, from its own chart as one Helm release, and its shards.

Decides the order: the chart brings the definitions and the operator, which makes a scheduler of every shard.
What the chart is told is the model's `chart_values`.
"""

import pulumi

from muster.components.bundle import Bundle, immutable, text
from muster.components.charts import release
from muster.components.context import Ground
from muster.components.objects import KubernetesObject
from muster.model import names
from muster.render import kai
from muster.render.manifest import manifest


class Kai(pulumi.ComponentResource):
    """`serving`: depend on it and Queues are accepted and a scheduler looks at them."""

    def __init__(
        self,
        name: str,
        *,
        ground: Ground,
        depends_on: list[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("muster:schedulers:Kai", name, None, opts)
        self.namespace = KubernetesObject(
            f"{name}-namespace",
            manifest("v1", "Namespace", names.KAI_NAMESPACE),
            opts=pulumi.ResourceOptions(parent=self, provider=ground.provider, depends_on=depends_on),
        )
        values = kai.chart_values(
            ground.stack,
            node_selector=ground.footprint.node_selector(),
            replicas=ground.footprint.manager_replicas,
        )
        self.release = release(
            name,
            ground.artifacts.chart("kai"),
            namespace=names.KAI_NAMESPACE,
            values=values,
            opts=pulumi.ResourceOptions(parent=self, provider=ground.provider, depends_on=[self.namespace]),
        )
        opts = pulumi.ResourceOptions(parent=self, provider=ground.bundles, depends_on=[self.release])
        # The labels of a topology's levels can never change.
        self.topologies = [
            Bundle(
                f"{name}-topology-{each['metadata']['name']}",
                manifests={each["metadata"]["name"]: text([each])},
                opts=immutable(opts),
            )
            for each in kai.topologies(ground.stack)
        ]
        self.shards = Bundle(
            f"{name}-shards", manifests={"shards": text(kai.shards(ground.stack))}, opts=opts
        )
        self.serving: pulumi.Resource = self.shards
        self.register_outputs({})
