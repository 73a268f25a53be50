"""The stack's GangPolicy, with the gang-admission controller's settings for every pool.

Responsible for the requests and checks that follow from a pool's capacity type.
"""

from dataclasses import replace
from typing import Final

from muster.model import names
from muster.model.gangpolicy import (
    DetailSelector,
    FlavorPolicy,
    GangPolicy,
    KaiPolicy,
    OnStaggered,
    OnStockOut,
    to_manifest,
)
from muster.model.kueue import Effect, Operator
from muster.model.kueue.tree import queue_name
from muster.model.node_labels import compared_labels, known_labels
from muster.model.pools import Capacity, Pool, Sharing
from muster.model.stack import Stack
from muster.render.manifest import Manifest

_WITHOUT_EFA: Final = {names.EFA_RESOURCE: "0", "hugepages-2Mi": "0"}


def policy(stack: Stack, *, placeholder_image: str = "") -> Manifest:
    """The GangPolicy object that the AdmissionCheck refers to. `placeholder_image` is the image of the pods
    that keep nodes, for a stack that needs some and names none itself.
    """
    found = gang_policy(stack)
    if makes_pods(stack) and not found.placeholder_image:
        found = replace(found, placeholder_image=placeholder_image)
    return to_manifest(found, name=names.GANG_POLICY)


def holds(stack: Stack) -> bool:
    """Whether the controller makes pods that keep nodes."""
    return stack.gang_admission.policy.on_staggered is OnStaggered.HOLD


def makes_pods(stack: Stack) -> bool:
    """Whether it makes pods at all: those, or placeholders that bring nodes."""
    return holds(stack) or bool(stack.placeholder_pools)


def steers(stack: Stack) -> bool:
    """Whether the controller keeps Workloads away from flavors."""
    return stack.gang_admission.policy.on_stock_out is OnStockOut.NEXT_FLAVOR


def gang_policy(stack: Stack) -> GangPolicy:
    """The stack's settings with one flavor a pool."""
    settings = stack.gang_admission.policy
    kai = (settings.kai or KaiPolicy()) if stack.scheduler.traits.pod_scheduler else None
    labels = known_labels(stack)
    return replace(
        settings,
        managed_resources=stack.managed_resources,
        flavors=tuple(
            replace(
                _flavor(pool, stack),
                node_labels={
                    **({names.ARCHITECTURE_LABEL: pool.architecture} if pool.architecture else {}),
                    **{key: value for key, value in labels[pool.name].items() if key != names.POOL_LABEL},
                },
                zones=stack.cluster.zones_of(pool),
                mig_profile=pool.sharing.profile or "" if pool.sharing.kind is Sharing.MIG else "",
            )
            for pool in stack.pools
        ),
        compared_labels=compared_labels(stack),
        idle={queue_name(team): team.idle for _, team in stack.owners() if team.idle is not None},
        kai=kai,
    )


def _flavor(pool: Pool, stack: Stack) -> FlavorPolicy:
    if pool.capacity is Capacity.QUEUED:
        return _queued(pool, stack)
    if pool in stack.placeholder_pools:
        return _by_placeholders(pool, stack)
    # Nodes that come as pods ask cannot be there before the pods; those of a pool of fixed size can, and
    # must.
    return FlavorPolicy(
        name=pool.flavor,
        verify_nodes=pool.min_nodes == pool.max_nodes,
        max_nodes=pool.max_nodes,
        gpus_per_node=_gpus(pool),
        per_node=_per_node(pool, stack),
        slice_nodes=pool.slice_nodes,
        gpu_taint=_is_tainted(pool, stack),
        gpu_memory=_gpu_memory(pool),
    )


def _gpus(pool: Pool) -> int:
    return pool.slots_per_node if pool.is_nvidia else 0


def _per_node(pool: Pool, stack: Stack) -> dict[str, str]:
    """NVIDIA's GPUs have a field of their own; other accelerators are a resource like others. No queue counts
    EFA's interfaces and the huge pages that come with them, so here is which nodes have none.
    """
    others = {pool.device: str(pool.slots_per_node)} if pool.is_gpu and not pool.is_nvidia else {}
    if names.EFA_RESOURCE in stack.uncounted_resources and stack.cluster.answers_requests:
        fabric = {names.EFA_RESOURCE: str(pool.machine.efa)} if pool.efa else _WITHOUT_EFA
        others = {**fabric, **others}
    return {**others, **pool.largest_pod(stack.cluster.provider)}


def _is_tainted(pool: Pool, stack: Stack) -> bool:
    """The tolerations of a flavor count as those of the pods that are assigned to it."""
    tolerated = any(
        each.key in (None, "", pool.device)
        and (each.operator is Operator.EXISTS or each.value == names.GPU_TAINT_VALUE)
        and each.effect in (None, Effect.NO_SCHEDULE)
        for each in pool.kueue.tolerations
    )
    return stack.scheduler.traits.has_flavors and pool.is_gpu and not tolerated


def _gpu_memory(pool: Pool) -> int:
    return pool.accelerator.memory_mib if pool.accelerator and pool.is_nvidia else 0


def _by_placeholders(pool: Pool, stack: Stack) -> FlavorPolicy:
    """All that a gang needs of it is one set of pods."""
    return replace(
        _queued(pool, stack),
        provisioning_class_name=names.PLACEHOLDER_CLASS,
        parameters={},
        one_pod_set_per_request=False,
    )


def _queued(pool: Pool, stack: Stack) -> FlavorPolicy:
    lease = DetailSelector(key=names.GKE_LEASE_LABEL, detail=names.GKE_LEASE_DETAIL)
    is_gke = pool.provisioning_class == names.GKE_QUEUED_CLASS
    return FlavorPolicy(
        name=pool.flavor,
        provisioning_class_name=pool.provisioning_class or "",
        parameters=pool.request_parameters,
        node_selector_from_details=(lease,) if is_gke else (),
        one_pod_set_per_request=is_gke,
        verify_nodes=True,
        max_nodes=pool.max_nodes,
        gpus_per_node=_gpus(pool),
        per_node=_per_node(pool, stack),
        slice_nodes=pool.slice_nodes,
        gpu_taint=_is_tainted(pool, stack),
        gpu_memory=_gpu_memory(pool),
        scarcity=pool.accelerator.rank if pool.accelerator else 0,
    )
