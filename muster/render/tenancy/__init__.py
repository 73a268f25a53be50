"""Tenancy as Kubernetes objects.

    team_objects(stack, department, team, queues=...)  Namespace, limits, networks, accounts and volumes
    member_role(stack)                                 the ClusterRole that every team's binding names
    policies(stack)                                    ValidatingAdmissionPolicies, each with its binding
    admission_objects(stack)                           the same in one list, with those for KubeRay

The policies are the same for one team and for a thousand: they read a team's queues and priorities from its
Namespace.
"""

from muster.model.stack import Stack
from muster.render import ray
from muster.render.manifest import Manifest
from muster.render.tenancy.policies import policies
from muster.render.tenancy.team import member_role, team_objects

__all__ = ["admission_objects", "member_role", "policies", "team_objects"]


def admission_objects(stack: Stack) -> list[Manifest]:
    """All policies of a stack, each before its binding."""
    return [*ray.admission(stack.ray), *(each for pair in policies(stack) for each in pair)]
