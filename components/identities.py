"""Identities: what each team's pods are in the cluster's cloud, and so which buckets they reach.

Decides that they are there before the team's pods and go after them, and that nothing is made where the
cluster is somebody else's. Leaves what an identity is to each cloud's own file, and who gets one to
muster/model/identities.

A team's identity has the team's name and not its department's: a team that moves keeps it.
"""

from collections.abc import Mapping, Sequence

import pulumi

from muster.components.clusters.cloud import Cloud
from muster.model.clusters import EksCluster, GkeCluster
from muster.model.queues import Team
from muster.model.stack import Stack


class Identities(pulumi.ComponentResource):
    """`of_teams`: team -> what has to be there before its pods; a team that asks for nothing has no entry."""

    def __init__(
        self,
        name: str,
        *,
        stack: Stack,
        cloud: Cloud | None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("muster:index:Identities", name, None, opts)
        found: dict[str, Sequence[pulumi.Resource]] = {}
        if cloud is not None:
            child = cloud.options(self)
            found = {team.name: _identity(stack, team, child) for _, team in stack.teams()}
        self.of_teams: Mapping[str, Sequence[pulumi.Resource]] = {
            team: made for team, made in found.items() if made
        }
        self.register_outputs({})


def _identity(stack: Stack, team: Team, opts: pulumi.ResourceOptions) -> Sequence[pulumi.Resource]:
    """The SDK of a cloud is a second of imports: it is loaded for the stacks that use that cloud."""
    match stack.cluster:
        case GkeCluster():
            from muster.components.clusters.gke import teams as google

            return google.team_identity(team, cluster=stack.cluster, opts=opts)
        case EksCluster():
            from muster.components.clusters.eks import teams as amazon

            return amazon.team_identity(team, cluster=stack.cluster, opts=opts)
        case _:
            return []
