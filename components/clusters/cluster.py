"""Which component makes or finds the cluster that a stack describes."""

from hashlib import sha256
from typing import Protocol

import pulumi
import pulumi_kubernetes as kubernetes

from muster.components.bundle import BundleProvider
from muster.components.clusters.cloud import Cloud
from muster.components.clusters.existing import ExistingCluster
from muster.model.clusters import Access, EksCluster, GkeCluster
from muster.model.clusters import ExistingCluster as Existing
from muster.model.members import access_entries, google_security_group
from muster.model.stack import Stack


class MadeCluster(Protocol):
    """What everything above a cluster knows of it: where to install, what it tells the outside, and the cloud
    that it is in, where it is ours.
    """

    kubernetes: kubernetes.Provider
    bundles: BundleProvider
    cloud: Cloud | None
    outputs: dict[str, pulumi.Input[object]]


def cluster_of(stack: Stack, *, opts: pulumi.ResourceOptions) -> MadeCluster:
    """The SDK of a cloud is a second of imports: it is loaded for the stacks that use that cloud."""
    described = stack.cluster
    match described:
        case Existing():
            return ExistingCluster(described.name, cluster=described, opts=opts)
        case GkeCluster():
            from muster.components.clusters.gke import GkeGpuCluster

            return GkeGpuCluster(
                described.name,
                cluster=described,
                stack_pools=stack.pools,
                security_group=google_security_group(stack),
                opts=opts,
            )
        case EksCluster():
            from muster.components.clusters.eks import EksGpuCluster

            return EksGpuCluster(
                described.name,
                cluster=described,
                stack_pools=stack.pools,
                access_for=_teams_access(stack),
                opts=opts,
            )


def _teams_access(stack: Stack) -> dict[str, Access]:
    """The members of teams that are IAM principals, each under a name that stays when others come and go."""
    return {
        f"member-{sha256(entry.principal.encode()).hexdigest()[:8]}": Access(
            principal=entry.principal, groups=entry.groups
        )
        for entry in access_entries(stack)
    }
