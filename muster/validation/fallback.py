"""Pools whose nodes are bought in several ways, first to last (`capacity: [reservation, on-demand]`)."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from muster.model.capacity import Capacity
from muster.model.clusters import Cluster, EksCluster, GkeCluster, GkeProvisioner
from muster.model.pools import Pool
from muster.model.violations import Violation
from muster.validation.machines import Choice, bought

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
