"""The ComputeClasses of a GKE cluster, with the nodes' service account and key filled in."""

from collections.abc import Sequence
from dataclasses import replace

import pulumi

from muster.components.bundle import text
from muster.components.clusters.cloud import Provisioning
from muster.errors import MusterError
from muster.model.capacity import Capacity
from muster.model.clusters import GkeCluster
from muster.model.pools import Pool
from muster.render.compute_classes import compute_classes


def provisioning(
    pools: Sequence[Pool],
    cluster: GkeCluster,
    *,
    service_account: pulumi.Input[str],
    kms_key: pulumi.Input[str] | None,
) -> Provisioning:
    """`service_account`: email of the nodes' account. `kms_key`: of their disks."""
    if queued := [pool.name for pool in pools if pool.capacity is Capacity.QUEUED]:
        raise MusterError(
            f"pool {', '.join(queued)}: nodes of a ComputeClass answer no ProvisioningRequest.",
            fix="use another capacity, or `autoscaler: node-pools`.",
        )

    def rendered(known: Sequence[str]) -> str:
        account, key = known
        keyed = replace(cluster, kms_key=key or None)
        return text(compute_classes(pools, keyed, service_account=account))

    return Provisioning(objects=pulumi.Output.all(service_account, kms_key or "").apply(rendered), queue=None)
