"""The ValidatingAdmissionPolicies: what a tenant may never do, even without our webhooks and with further
rights.

Each says what it is for in `purpose`. docs/reference/admission.md lists all of them with their messages.
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
from muster.render.tenancy.policies.kai_valid import kai_sharing, kai_waiting
from muster.render.tenancy.policies.node_labels import node_labels
from muster.render.tenancy.policies.owners import owners
from muster.render.tenancy.policies.pod_security import pod_security
from muster.render.tenancy.policies.pod_valid import pod_valid
from muster.render.tenancy.policies.pods import pods
from muster.render.tenancy.policies.policy import Policy
from muster.render.tenancy.policies.protected import namespaces, protected
from muster.render.tenancy.policies.queues import queues
from muster.render.tenancy.policies.ray import ray
from muster.render.tenancy.policies.ray_valid import ray_valid
from muster.render.tenancy.policies.reserved import reserved
from muster.render.tenancy.policies.reviews import reviews
from muster.render.tenancy.policies.routes import routes
from muster.render.tenancy.policies.scalers import scalers
from muster.render.tenancy.policies.services import ray_services, services
from muster.render.tenancy.policies.sizes import sizes
from muster.render.tenancy.policies.templates import templates
from muster.render.tenancy.policies.topologies import topologies
from muster.render.tenancy.policies.work import work


def policies(stack: Stack) -> list[list[Manifest]]:
    """Every policy, each with its binding."""
    return [policy.manifests(mode) for policy, mode in in_force(stack)]


def in_force(stack: Stack) -> list[tuple[Policy, TenancyMode]]:
    """Every policy. Those for our own controller are enforced in every mode; advice is always a warning."""
    found = [(fence, TenancyMode.ENFORCE) for fence in fences(stack)]
    if stack.gang_admission.mode is GangMode.MUSTER:
        never = (reviews(stack), pod_valid(), topologies(stack))
        found += [(policy, TenancyMode.ENFORCE) for policy in never]
        found.append((node_labels(stack), TenancyMode.WARN))
        if stack.scheduler is Scheduler.KUEUE:
            found.append((queues(), TenancyMode.ENFORCE))
    if stack.is_gated:
        found.append((kai_waiting(), TenancyMode.WARN))
        found += [] if stack.kai.gpu_sharing else [(kai_sharing(), TenancyMode.ENFORCE)]
    if stack.tenancy.capabilities or stack.tenancy.mode is not TenancyMode.OFF:
        # In place of the API server's own plugin, which no mode switches off.
        found.append((pod_security(stack), TenancyMode.ENFORCE))
    if (advice := fabrics(stack)) is not None:
        found.append((advice, TenancyMode.WARN))
    if stack.tenancy.mode is not TenancyMode.OFF:
        ours = (
            *(work(stack), ray(stack), ray_services(stack), services(), routes()),
            *(templates(stack), ending(stack)),
            *((growth(), finished(stack), ray_valid()) if stack.scheduler is Scheduler.KUEUE else ()),
            *(
                owners(stack),
                pods(stack),
                changes(stack),
                accounts(),
                scalers(),
                reserved(stack),
                sizes(stack),
            ),
            *(protected(), namespaces()),
        )
        found += [(policy, stack.tenancy.mode) for policy in ours]
    return found
