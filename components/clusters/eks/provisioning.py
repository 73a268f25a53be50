"""The objects from which Karpenter or Auto Mode launches the nodes of an EKS cluster, with what they refer to
in AWS filled in.
"""

from collections.abc import Sequence
from typing import Any

import pulumi
import pulumi_aws as aws

from muster.components.bundle import text
from muster.components.clusters.cloud import Provisioning
from muster.components.clusters.eks import groups, launch
from muster.components.clusters.eks.network import Network
from muster.errors import MusterError
from muster.model.capacity import Capacity
from muster.model.clusters import EksCluster
from muster.model.pools import Pool
from muster.render import karpenter


def provisioning(
    described: EksCluster,
    pools: Sequence[Pool],
    *,
    prefix: str,
    control_plane: aws.eks.Cluster,
    network: Network,
    role: pulumi.Output[str],
    queue: pulumi.Output[str] | None,
    opts: pulumi.ResourceOptions,
) -> Provisioning:
    """`role`: the name of the nodes' role."""
    if queued := [pool.name for pool in pools if pool.capacity is Capacity.QUEUED]:
        raise MusterError(
            f"pool {', '.join(queued)}: {described.autoscaler} answers no ProvisioningRequest.",
            fix="use another capacity, or `autoscaler: cluster-autoscaler`.",
        )
    fabric: pulumi.Input[str] = ""
    if any(pool.efa for pool in pools):
        fabric = groups.fabric(described, prefix=prefix, control_plane=control_plane, opts=opts).id
    placement = {
        pool.name: group
        for pool in pools
        if (group := launch.placement_group(pool, described, name=f"{prefix}-{pool.name}", opts=opts))
    }
    known = pulumi.Output.all(
        role=role,
        subnets=dict(network.subnets),
        shared=control_plane.vpc_config.apply(lambda config: config.cluster_security_group_id or ""),
        fabric=fabric,
        placement=placement,
    )

    def rendered(values: dict[str, Any]) -> str:
        return text(karpenter.objects(pools, described, karpenter.Found(**values)))

    return Provisioning(objects=known.apply(rendered), queue=queue)
