"""Names of a GKE cluster's resources that are unique in a Google project, not only in a region.

Clusters of the same name in two regions of a project share none of them, because the name or its hash
contains the region. Regional resources (cluster, subnetwork, router, image repository) have the cluster's
name.

cloud.google.com, "Resource naming convention": networks and firewall rules, 63 characters; "Create service
accounts": 6 to 30.
"""

from hashlib import sha256
from typing import Final

from muster.model.clusters.gke import GkeCluster

_LONGEST_NETWORK: Final = 63
_LONGEST_ACCOUNT: Final = 30


def network(cluster: GkeCluster) -> str:
    """The VPC that is made for the cluster, and the firewall rule in it."""
    name = f"{cluster.name}-{cluster.region}"
    return name if len(name) <= _LONGEST_NETWORK else _marked(name, _LONGEST_NETWORK, of=name)


def node_account(cluster: GkeCluster) -> str:
    """The service account that is made for its nodes."""
    return _marked(f"{cluster.name}-nodes", _LONGEST_ACCOUNT, of=f"{cluster.region}/{cluster.name}")


def team_account(cluster: GkeCluster, team: str) -> str:
    """The service account of a team's pods. The hash distinguishes team c of stack a-b from team b-c of
    stack a.
    """
    of = f"{cluster.region}/{cluster.name}/{team}"
    return _marked(f"muster-{cluster.name}-{team}", _LONGEST_ACCOUNT, of=of)


def _marked(name: str, longest: int, *, of: str) -> str:
    """The name, shortened, and a part of the hash of what it identifies."""
    return f"{name[: longest - 9].rstrip('-')}-{sha256(of.encode()).hexdigest()[:8]}"
