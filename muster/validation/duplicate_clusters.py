"""Two stacks that describe one cluster: each would make it, and take it away from the other.

Decides what makes two clusters one. Leaves finding the other stacks to the reader of the files. Clusters of
one name in two regions are two, and none of what they are made of has the other's name
(muster/model/google_names).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from muster.model.clusters import Cluster, EksCluster, GkeCluster, Provider
from muster.model.violations import Violation

_PATH = "muster:cluster.name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a cluster stands, as its stack file says it. EKS: no file names the account."""

    provider: str
    region: str
    name: str
    project: str = ""


def place_of(cluster: Cluster) -> Place | None:
    """None for a cluster that somebody else made: several stacks may use it, one after another."""
    match cluster:
        case GkeCluster():
            return Place(
                provider=Provider.GKE, region=cluster.region, name=cluster.name, project=cluster.project
            )
        case EksCluster():
            return Place(provider=Provider.EKS, region=cluster.region, name=cluster.name)
        case _:
            return None


def twin_rules(cluster: Cluster, others: Mapping[str, Place]) -> Iterator[Violation]:
    """`others`: stack -> the cluster that it describes."""
    mine = place_of(cluster)
    for stack in sorted(stack for stack, place in others.items() if place == mine):
        if isinstance(cluster, EksCluster):
            message = (
                f"{cluster.name!r} in {cluster.region} is also what stack {stack} describes. That is "
                f"right where the two are run in different AWS accounts."
            )
            fix = "in one account, give one of them another name, or another region."
            yield Violation(_PATH, message, fix, "warning")
        elif isinstance(cluster, GkeCluster):
            message = (
                f"{cluster.name!r} in {cluster.region} of project {cluster.project} is what stack "
                f"{stack} describes: two stacks cannot make one cluster."
            )
            fix = "give one of them another name, or another region or project."
            yield Violation(_PATH, message, fix)
