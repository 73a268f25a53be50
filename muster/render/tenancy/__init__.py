"""Tenancy as Kubernetes objects.

    team_objects(stack, department, team, queues=...)  Namespace, limits, networks, accounts and volumes
    member_role(stack)                                 the ClusterRole that every team's binding names
    policies(stack)                                    ValidatingAdmissionPolicies, each with its binding

The policies are the same for one team and for a thousand: they read a team's queues and priorities from its
Namespace.
"""

from muster.render.tenancy.policies import policies
from muster.render.tenancy.team import member_role, team_objects

__all__ = ["member_role", "policies", "team_objects"]
