"""Which component makes or finds the cluster that a stack describes."""

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol

import pulumi
import pulumi_kubernetes as kubernetes

from muster.components.bundle import BundleProvider
from muster.components.clusters.cloud import Cloud, Provisioning
from muster.components.clusters.existing import ExistingCluster, ExistingClusterArgs
from muster.errors import MusterError
from muster.model.clusters import Access, EksCluster, GkeCluster
from muster.model.clusters import ExistingCluster as Existing
from muster.model.members import access_entries, google_security_group
from muster.model.stack import Stack

if TYPE_CHECKING:
    from muster.components.clusters.eks import ExistingVpcArgs
    from muster.components.clusters.gke import ExistingNetworkArgs


class MadeCluster(Protocol):
    """What everything in a cluster knows of it: the providers that install into it, what it exports, and its
    cloud, None for a cluster that Muster did not make. `provisioning`: None where nodes need no objects.
    """

    kubernetes: kubernetes.Provider
    bundles: BundleProvider
    cloud: Cloud | None
    provisioning: Provisioning | None
    outputs: dict[str, pulumi.Input[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterInputs:
    """Values of a stack's cluster that come from other resources of the program. Each takes the place of the
    setting in the stack; one that the stack's provider does not have is refused.

    `network` (GKE) and `vpc` (EKS): an existing network. None makes one.
    `kms_key` (GKE, EKS): the key that encrypts Secrets. On EKS another key replaces the cluster.
    `node_service_account` (GKE): email of an existing account, which Muster then grants nothing.
    `kubeconfig`, `context` (existing): text of a kubeconfig, and the context in it; None: its current one.
    """

    network: "ExistingNetworkArgs | None" = None
    vpc: "ExistingVpcArgs | None" = None
    kms_key: pulumi.Input[str] | None = None
    node_service_account: pulumi.Input[str] | None = None
    kubeconfig: pulumi.Input[str] | None = None
    context: pulumi.Input[str] | None = None

    def refuse_all_but(self, *known: str, provider: str) -> None:
        """MusterError where a value is given that a cluster of this provider does not take."""
        given = {
            "network": self.network,
            "vpc": self.vpc,
            "kms_key": self.kms_key,
            "node_service_account": self.node_service_account,
            "kubeconfig": self.kubeconfig,
            "context": self.context,
        }
        wrong = [name for name, value in given.items() if value is not None and name not in known]
        if wrong:
            raise MusterError(
                f"ClusterInputs: {', '.join(wrong)}: a cluster of provider {provider} does not take it.",
                fix=f"leave it out; {provider} takes {', '.join(known)}.",
            )


def cluster_of(
    stack: Stack,
    *,
    name: str | None = None,
    inputs: ClusterInputs | None = None,
    opts: pulumi.ResourceOptions,
) -> MadeCluster:
    """Make or reach the cluster that a stack describes. `name`: of the component, else the cluster's own.

    A cloud's SDK takes a second to import, so only the one that the stack uses is imported.
    """
    described, given = stack.cluster, inputs or ClusterInputs()
    name = name or described.name
    match described:
        case Existing():
            given.refuse_all_but("kubeconfig", "context", provider="existing")
            existing = ExistingClusterArgs(
                cluster_name=described.name,
                kubeconfig=given.kubeconfig,
                context=described.context if given.context is None else given.context,
                kubeconfig_file=described.kubeconfig,
            )
            return ExistingCluster(name, existing, opts=opts)
        case GkeCluster():
            from muster.components.clusters.gke import GkeGpuCluster, GkeGpuClusterArgs

            given.refuse_all_but("network", "kms_key", "node_service_account", provider="gke")
            google = GkeGpuClusterArgs(
                cluster=described,
                pools=stack.pools,
                security_group=google_security_group(stack),
                network=given.network,
                kms_key=given.kms_key,
                node_service_account=given.node_service_account,
            )
            return GkeGpuCluster(name, google, opts=opts)
        case EksCluster():
            from muster.components.clusters.eks import EksGpuCluster, EksGpuClusterArgs

            given.refuse_all_but("vpc", "kms_key", provider="eks")
            amazon = EksGpuClusterArgs(
                cluster=described,
                pools=stack.pools,
                access=_teams_access(stack),
                vpc=given.vpc,
                kms_key=given.kms_key,
            )
            return EksGpuCluster(name, amazon, opts=opts)


def _teams_access(stack: Stack) -> dict[str, Access]:
    """The members of teams that are IAM principals, each under a name that stays when others come and go."""
    return {
        f"member-{sha256(entry.principal.encode()).hexdigest()[:8]}": Access(
            principal=entry.principal, groups=entry.groups
        )
        for entry in access_entries(stack)
    }
