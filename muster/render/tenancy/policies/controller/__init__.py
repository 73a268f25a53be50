"""Limits our own accounts to the writes that they make, in every mode of tenancy.

RBAC cannot look into an object: who may patch pods may change their images, and who may create a Secret may
create one that holds the token of another account. With these policies a stolen token of ours is worth little
more than the controller's work.

workloads     our own check, `active`, our annotations
requests      requests and templates of ours
nodes         the taints on the nodes of a gang that asks by placeholders, and on broken ones
pods          our gate and what goes with it, placeholders, and pods that never ran
ray_clusters  claims come off pod templates; with KAI, notes of failed tries
reports       conditions of our own checks, Events of our own
keys          the Secret with the certificates, and the Lease
forecasts     the recorder's account: one annotation of Workloads
"""

from muster.model.stack import Scheduler, Stack
from muster.render.tenancy.policies.controller import keys, nodes, pods, reports, requests, workloads
from muster.render.tenancy.policies.policy import Policy


def fences(stack: Stack) -> tuple[Policy, ...]:
    """Those for the rights that a stack gives its controller (components/gang_authority.py)."""
    has_kueue = stack.scheduler is Scheduler.KUEUE
    return (
        *((workloads.workloads(stack),) if has_kueue else ()),
        workloads.ray_clusters(stack),
        *((nodes.nodes(),) if stack.placeholder_pools or stack.closes_nodes else ()),
        *(requests.requests(), pods.pods(stack), reports.reports(), keys.keys()),
        *((workloads.forecasts(),) if stack.recording.forecasts else ()),
    )
