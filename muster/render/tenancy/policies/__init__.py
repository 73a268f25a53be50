"""The ValidatingAdmissionPolicies: what a tenant may never do, even without our webhooks and with further
rights.

templates   pod templates whose pods can start, keep to their team, and end when their work is deleted
finished    no cluster of a RayJob beyond its quota
ending      nothing that keeps pods beyond the deletion of their work
work        a queue and a priority of the team's, no way to admit oneself, and none not to be stopped
ray         no growing past what the queue counted
services    no address or port outside of the cluster, also where KubeRay writes the Service
routes      no Ingress, no Gateway
growth      what runs stays as large as its queue counted it
reserved    labels, annotations and names of Muster and Kueue are not a tenant's to write
sizes       no object larger than the stack allows
pods        GPUs only for pods of admitted work; in KAI stacks behind our gate
changes     pods of work that runs are changed by its controllers alone
accounts    no token of an account that is not the pipelines'
autoscalers the account of a Ray cluster's autoscaler scales this cluster and does nothing else
protected   Workloads, queues, requests, quotas, networks, endpoints and statuses are not a tenant's to write
namespaces  labels and annotations of a team's Namespace are not a tenant's to write
controller  limits our own accounts to the writes that they make
reviews     nothing that could never start, in every mode
queues      no field of a ClusterQueue that our check cannot serve
fabrics     a warning where a job of several nodes would go without their fast network
"""

from muster.model.stack import GangMode, Scheduler, Stack
from muster.model.tenancy import TenancyMode
from muster.render.manifest import Manifest
from muster.render.tenancy.policies.accounts import accounts
from muster.render.tenancy.policies.changes import changes
from muster.render.tenancy.policies.controller import fences
from muster.render.tenancy.policies.ending import ending
from muster.render.tenancy.policies.fabrics import fabrics
from muster.render.tenancy.policies.finished import finished
from muster.render.tenancy.policies.growth import growth
from muster.render.tenancy.policies.pods import pods
from muster.render.tenancy.policies.protected import namespaces, protected
from muster.render.tenancy.policies.queues import queues
from muster.render.tenancy.policies.ray import ray
from muster.render.tenancy.policies.reserved import reserved
from muster.render.tenancy.policies.reviews import reviews
from muster.render.tenancy.policies.routes import routes
from muster.render.tenancy.policies.scalers import scalers
from muster.render.tenancy.policies.services import ray_services, services
from muster.render.tenancy.policies.sizes import sizes
from muster.render.tenancy.policies.templates import templates
from muster.render.tenancy.policies.work import work


def policies(stack: Stack) -> list[list[Manifest]]:
    """Every policy, each with its binding. Those for our own controller are enforced in every mode; advice is
    always a warning.
    """
    found = [fence.manifests(TenancyMode.ENFORCE) for fence in fences(stack)]
    if stack.gang_admission.mode is GangMode.MUSTER:
        found.append(reviews(stack).manifests(TenancyMode.ENFORCE))
        if stack.scheduler is Scheduler.KUEUE:
            found.append(queues().manifests(TenancyMode.ENFORCE))
    if (advice := fabrics(stack)) is not None:
        found.append(advice.manifests(TenancyMode.WARN))
    if stack.tenancy.mode is not TenancyMode.OFF:
        ours = (
            *(work(stack), ray(stack), ray_services(stack), services(), routes()),
            *(templates(stack), ending(stack)),
            *((growth(), finished(stack)) if stack.scheduler is Scheduler.KUEUE else ()),
            *(pods(stack), changes(stack), accounts(), scalers(), reserved(), sizes(stack)),
            *(protected(), namespaces()),
        )
        found += [policy.manifests(stack.tenancy.mode) for policy in ours]
    return found
