"""Values of the examples that were never replaced: no cluster can be made with them.

`muster validate` reports them. A preview and the policy pack also read stacks that are not filled in yet.
"""

import ipaddress
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from muster.model.capacity import Capacity, Gangs
from muster.model.clusters import Cluster, EksCluster, GkeCluster, GkeProvisioner
from muster.model.pools import Pool
from muster.model.stack import GangMode, Stack
from muster.model.violations import Violation
from muster.validation.machines import Choice, bought

# Pools whose nodes are bought in several ways, first to last (`capacity: [reservation, on-demand]`).

_LEGAL: Final = (Capacity.RESERVATION, Capacity.ON_DEMAND, Capacity.SPOT)
# Karpenter has an order of its own. Source: https://karpenter.sh/docs/tasks/odcrs/ and getCapacityType in
# pkg/providers/instance/instance.go of aws/karpenter-provider-aws, read 2026-11-27.
_OF_KARPENTER: Final = (Capacity.RESERVATION, Capacity.SPOT, Capacity.ON_DEMAND)


def fallback_rules(pool: Pool, cluster: Cluster, choice: Choice) -> Iterator[Violation]:
    """Every rule about the ways after the first. `choice` is the pool's machine."""
    if not pool.fallback:
        return
    path, ways = f"muster:pools.{pool.name}", (pool.capacity, *pool.fallback)
    if not _takes_several(cluster):
        message = "is a list, and the autoscaler of this cluster buys the nodes of a pool in one way."
        fix = (
            "write a pool for each way: work goes to reservation, on-demand and spot in this order. Or use "
            "`autoscaler: compute-classes` (GKE) or `karpenter` (EKS)."
        )
        yield Violation(f"{path}.capacity", message, fix)
        return
    if others := [each for each in ways if each not in _LEGAL]:
        message = f"has {', '.join(others)}, which is no part of a list."
        yield Violation(f"{path}.capacity", message, f"use {', '.join(_LEGAL)}.")
        return
    if Capacity.RESERVATION in pool.fallback:
        message = "has the reservation after what is bought: it would be paid for and not used."
        yield Violation(f"{path}.capacity", message, "write reservation first.")
    own = [each for each in _OF_KARPENTER if each in ways]
    if isinstance(cluster, EksCluster) and [*ways] != own:
        message = f"is [{', '.join(ways)}], and Karpenter tries [{', '.join(own)}], whatever is written."
        yield Violation(f"{path}.capacity", message, "write that order, or a pool for each way.")
    for capacity in pool.fallback:
        yield from bought(replace(choice, capacity=capacity), path)


def _takes_several(cluster: Cluster) -> bool:
    if isinstance(cluster, GkeCluster):
        return cluster.autoscaler is GkeProvisioner.COMPUTE_CLASSES
    return isinstance(cluster, EksCluster) and not cluster.answers_requests


# The word `gangs` of a pool: how gangs get its nodes.
# What they are is in docs/decisions/023-gangs-by-placeholders.md.


def gang_word_rules(stack: Stack) -> list[Violation]:
    return [found for pool in stack.pools for found in _word(pool, stack)]


def _word(pool: Pool, stack: Stack) -> Iterator[Violation]:
    path = f"muster:pools.{pool.name}.gangs"
    if pool.gangs is None:
        return
    if pool.capacity is Capacity.QUEUED:
        message = "a queued pool gets gangs by ProvisioningRequests."
        yield Violation(path, message, "remove it, or write another `capacity`.")
    elif pool.gangs is Gangs.NONE:
        return
    elif not pool.is_gpu:
        message = "only pools with GPUs get gangs: a pod without one needs a node at once."
        yield Violation(path, message, "remove it.")
    elif pool.slice_nodes > 1:
        message = f"a slice of {pool.slice_nodes} nodes is bought whole, which placeholders do not ask for."
        yield Violation(path, message, "write `capacity: queued`, or `gangs: none`.")
    elif stack.leaves_classes_to_pods:
        message = (
            "with KAI nothing makes pods select the pool's ComputeClass, so GKE makes no nodes for them."
        )
        yield Violation(path, message, "write `gangs: none`, or `muster:scheduler: kueue`.")
    elif stack.gang_admission.mode is not GangMode.MUSTER:
        mode = stack.gang_admission.mode
        message = f"only Muster's controller makes placeholders, and gangAdmission is {mode}."
        yield Violation(path, message, "write `gangs: none`, or `muster:gangAdmission: muster`.")


# What `muster new`, the shipped stacks and the clouds' own pages have in their place.
_PROJECTS: Final = ("my-project", "my-gcp-project", "project-id", "your-project")
_ACCOUNT: Final = "123456789012"
_RESERVATIONS: Final = ("cr-0123456789abcdef0", "cr-0fedcba9876543210", "cr-1234567890abcdef0")
# Of RFC 5737: they are on no network.
_NETWORKS: Final = tuple(map(ipaddress.IPv4Network, ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")))
_CLUSTER: Final = "muster:cluster"
_PROJECT_FIX: Final = "write the ID of your project: `gcloud config get project` prints it."
_ACCOUNT_FIX: Final = "write an ARN of your account: `aws sts get-caller-identity` prints yours."
_NETWORK_FIX: Final = "write the addresses from which you deploy, such as your office's."
_RESERVATION_FIX: Final = "write the id of yours: `aws ec2 describe-capacity-reservations` prints them."


def placeholder_rules(stack: Stack) -> list[Violation]:
    """Every value that is still the example's."""
    cluster = stack.cluster
    found = list(_reservations(stack))
    if isinstance(cluster, GkeCluster):
        found += _gke(cluster)
    elif isinstance(cluster, EksCluster):
        found += _eks(cluster)
    return found


def _gke(cluster: GkeCluster) -> Iterator[Violation]:
    if cluster.project.lower() in _PROJECTS:
        yield Violation(f"{_CLUSTER}.project", _example(cluster.project), _PROJECT_FIX)
    for name, block in cluster.authorized_networks.items():
        yield from _network(f"{_CLUSTER}.authorizedNetworks.{name}", block)


def _eks(cluster: EksCluster) -> Iterator[Violation]:
    for index, block in enumerate(cluster.public_cidrs):
        yield from _network(f"{_CLUSTER}.publicCidrs[{index}]", block)
    for name, access in cluster.access.items():
        if f":{_ACCOUNT}:" in access.principal:
            yield Violation(f"{_CLUSTER}.access.{name}", _example(access.principal), _ACCOUNT_FIX)


def _reservations(stack: Stack) -> Iterator[Violation]:
    for pool in stack.pools:
        if pool.reservation is not None and pool.reservation.name in _RESERVATIONS:
            path = f"muster:pools.{pool.name}.reservation"
            yield Violation(path, _example(pool.reservation.name), _RESERVATION_FIX)


def _network(path: str, block: str) -> Iterator[Violation]:
    try:
        network = ipaddress.ip_network(block, strict=False)
    except ValueError:
        return  # another rule reports it
    if any(isinstance(network, ipaddress.IPv4Network) and network.subnet_of(each) for each in _NETWORKS):
        yield Violation(
            path, f"{block} is a network for documentation: no address of it is in use.", _NETWORK_FIX
        )


def _example(value: str) -> str:
    return f"{value} is the value of an example."
