"""Identities: what each team's pods are in the cluster's cloud, and so which buckets they reach.

Responsible for the order, before the team's pods and after them, and for making nothing in a cluster of
unknown cloud. Not responsible for what an identity is (each cloud's own file) or which team gets one
(muster/model/identities).

A team's identity has the team's name and not its department's: a team that moves keeps it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pulumi

from muster.components.clusters.cloud import Cloud
from muster.components.component import Component
from muster.model.clusters import EksCluster, GkeCluster
from muster.model.queues import Team
from muster.model.stack import Stack

_TYPE: Final = "muster:index:Identities"


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentitiesArgs:
    """`stack`: its teams with their `access`, and its cluster. A team without identity or buckets gets
    nothing.

    `cloud`: the cloud's provider and the control plane (`cloud` of a cluster component). None makes nothing,
    and pods that expect a cloud identity then have none.
    """

    stack: Stack
    cloud: Cloud | None


class Identities(Component):
    """`of_teams` maps each team to what has to exist before its pods; a team without one has no entry."""

    def __init__(self, name: str, args: IdentitiesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(_TYPE, name, opts, short_name="identities")
        found: dict[str, Sequence[pulumi.Resource]] = {}
        if args.cloud is not None:
            waits = pulumi.ResourceOptions(depends_on=[args.cloud.control_plane])
            child = pulumi.ResourceOptions.merge(self.child_options(provider=args.cloud.provider), waits)
            prefix = self.child_name(args.stack.cluster.name)
            found = {team.name: _identity(args.stack, team, prefix, child) for _, team in args.stack.teams()}
        self.of_teams: Mapping[str, Sequence[pulumi.Resource]] = {
            team: made for team, made in found.items() if made
        }
        self.register_outputs({})


def _identity(
    stack: Stack, team: Team, prefix: str, opts: pulumi.ResourceOptions
) -> Sequence[pulumi.Resource]:
    """A cloud's SDK takes a second to import, so only the one that the stack uses is imported."""
    match stack.cluster:
        case GkeCluster():
            from muster.components.clusters.gke import teams as google

            return google.team_identity(team, prefix=prefix, cluster=stack.cluster, opts=opts)
        case EksCluster():
            from muster.components.clusters.eks import teams as amazon

            return amazon.team_identity(team, prefix=prefix, cluster=stack.cluster, opts=opts)
        case _:
            return []
