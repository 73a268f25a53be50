"""The ValidatingAdmissionPolicies: what a tenant may never do, even without our webhooks and with further
rights.

templates   pod templates whose pods can start, and end when their work is deleted
ending      nothing that keeps pods beyond the deletion of their work
work        a queue and a priority of the team's, no way to admit oneself, and none not to be stopped
ray         no growing past what the queue counted
services    no address or port outside of the cluster, also where KubeRay writes the Service
routes      no Ingress, no Gateway
pods        GPUs only for pods of admitted work; in KAI stacks behind our gate
protected   Workloads, queues, requests, quotas, networks and endpoints are not a tenant's to write
namespaces  labels and annotations of a team's Namespace are not a tenant's to write
controller  limits our own accounts to their own check
"""

from muster.model.stack import Scheduler, Stack
from muster.model.tenancy import TenancyMode
from muster.render import gang
from muster.render.manifest import Manifest
from muster.render.tenancy.policies.controller import controller
from muster.render.tenancy.policies.ending import ending
from muster.render.tenancy.policies.pods import pods
from muster.render.tenancy.policies.protected import namespaces, protected
from muster.render.tenancy.policies.ray import ray
from muster.render.tenancy.policies.routes import routes
from muster.render.tenancy.policies.services import ray_services, services
from muster.render.tenancy.policies.templates import templates
from muster.render.tenancy.policies.work import work


def policies(stack: Stack) -> list[list[Manifest]]:
    """Every policy, each with its binding. Those for our own controller are enforced in every mode."""
    of_ours = controller(
        holds=gang.holds(stack), steers=gang.steers(stack), has_slices=stack.scheduler is Scheduler.KUEUE
    )
    found = [of_ours.manifests(TenancyMode.ENFORCE)]
    if stack.tenancy.mode is not TenancyMode.OFF:
        ours = (
            *(work(stack), ray(stack), ray_services(stack), services(), routes()),
            *(templates(stack), ending(stack), pods(stack), protected(), namespaces()),
        )
        found += [policy.manifests(stack.tenancy.mode) for policy in ours]
    return found
