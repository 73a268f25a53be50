"""Two stacks that describe the same cluster: each would create it and delete the other's.

Responsible for when two descriptions mean the same cluster. Clusters of one name in two regions are two
clusters, and no resource of one has the name of a resource of the other (muster/model/google_names).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from muster.model.clusters import Cluster, EksCluster, GkeCluster, Provider
from muster.model.violations import Violation

_PATH = "muster:cluster.name"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterIdentity:
    """What identifies a cluster in its stack file. EKS: no stack file names the AWS account."""

    provider: str
    region: str
    name: str
    project: str = ""


def identity_of(cluster: Cluster) -> ClusterIdentity | None:
    """None for an existing cluster, which several stacks may use one after another."""
    match cluster:
        case GkeCluster():
            return ClusterIdentity(
                provider=Provider.GKE, region=cluster.region, name=cluster.name, project=cluster.project
            )
        case EksCluster():
            return ClusterIdentity(provider=Provider.EKS, region=cluster.region, name=cluster.name)
        case _:
            return None


def duplicate_cluster_rules(cluster: Cluster, others: Mapping[str, ClusterIdentity]) -> Iterator[Violation]:
    """Report every other stack that describes the same cluster. `others` maps stack name to cluster."""
    own = identity_of(cluster)
    for stack in sorted(stack for stack, identity in others.items() if identity == own):
        if isinstance(cluster, EksCluster):
            message = (
                f"{cluster.name!r} in {cluster.region} is also described by stack {stack}. That is "
                f"correct only if the two stacks use different AWS accounts."
            )
            fix = "if both use the same account, give one of them another name or another region."
            yield Violation(_PATH, message, fix, "warning")
        elif isinstance(cluster, GkeCluster):
            message = (
                f"{cluster.name!r} in {cluster.region} of project {cluster.project} is also "
                f"described by stack {stack}: two stacks cannot create the same cluster."
            )
            fix = "give one of them another name, or another region or project."
            yield Violation(_PATH, message, fix)
