"""The ValidatingAdmissionPolicies: what a tenant may never do, even without our webhooks and with further
rights.

Each says what it is for in `purpose`. docs/reference/admission.md lists all of them with their messages.
"""

from muster.model.stack import GangMode, Stack
from muster.model.tenancy import TenancyMode
from muster.render.manifest import Manifest
from muster.render.tenancy.policies import pods, work
from muster.render.tenancy.policies.fences import fences
from muster.render.tenancy.policies.policy import Policy, policy


def policies(stack: Stack) -> list[list[Manifest]]:
    """Every policy, each with its binding."""
    return [each.manifests(mode) for each, mode in in_force(stack)]


def in_force(stack: Stack) -> list[tuple[Policy, TenancyMode]]:
    """Every policy. Those for our own controller are enforced in every mode; advice is always a warning."""
    found = [(fence, TenancyMode.ENFORCE) for fence in fences(stack)]
    if stack.gang_admission.mode is GangMode.MUSTER:
        never = (work.reviews(stack), pods.pod_valid(stack), pods.topologies(stack))
        found += [(each, TenancyMode.ENFORCE) for each in never]
        found.append((pods.node_labels(stack), TenancyMode.WARN))
        if stack.scheduler.traits.admits_jobs:
            found.append((policy("muster-queues"), TenancyMode.ENFORCE))
    if stack.is_gated:
        found.append((work.kai_waiting(stack), TenancyMode.WARN))
        found += [] if stack.kai.gpu_sharing else [(pods.kai_sharing(stack), TenancyMode.ENFORCE)]
    if stack.tenancy.capabilities or stack.tenancy.mode is not TenancyMode.OFF:
        # In place of the API server's own plugin, which no mode switches off.
        found.append((pods.pod_security(stack), TenancyMode.ENFORCE))
    if (advice := pods.fabrics(stack)) is not None:
        found.append((advice, TenancyMode.WARN))
    if stack.tenancy.mode is not TenancyMode.OFF:
        admits_jobs = stack.scheduler.traits.admits_jobs
        ours = (
            work.work(stack),
            work.ray_size(stack),
            work.ray_services(stack),
            policy("muster-services"),
            policy("muster-routes"),
            pods.templates(stack),
            work.ending(stack),
            *((work.growth(stack), work.finished(stack), policy("muster-ray-valid")) if admits_jobs else ()),
            work.owners(stack),
            pods.pods(stack),
            pods.changes(stack),
            policy("muster-accounts"),
            work.autoscalers(),
            work.reserved(stack),
            work.sizes(stack),
            work.protected(stack),
            policy("muster-namespaces"),
        )
        found += [(each, stack.tenancy.mode) for each in ours]
    return found
