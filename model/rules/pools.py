"""Pools: which ways of buying nodes are legal where, and what a pool must say for its way."""

from collections.abc import Iterator
from typing import Final

from model import names
from model.capacity import LEGAL_CAPACITY, PROVISIONING_CLASSES, Capacity
from model.pools import Pool
from model.providers import Provider
from model.stack import Stack
from model.violations import Violation, suggestion

# Kueue takes at most 64 flavors in a resource group, and all pools share one.
MOST_POOLS: Final = 64


def pool_rules(stack: Stack) -> list[Violation]:
    """Every rule about pools."""
    found = [violation for pool in stack.pools for violation in _pool(pool, stack.cluster.provider)]
    if not stack.cpu_pools:
        message = "has no CPU pool, so the head of a gang has nowhere to run."
        found.append(
            Violation(
                "muster:pools", message, "add a pool without GPUs: `cpu: {machine: ..., maxNodes: ...}`."
            )
        )
    if len(stack.pools) > MOST_POOLS:
        message = f"has {len(stack.pools)} pools; Kueue takes {MOST_POOLS} in a resource group."
        found.append(Violation("muster:pools", message, "merge pools of the same machine."))
    return found


def _pool(pool: Pool, provider: Provider) -> Iterator[Violation]:
    path = f"muster:pools.{pool.name}"
    if pool.name == names.SYSTEM_POOL:
        yield Violation(
            path, f"the name {pool.name!r} is the system's own pool.", "give the pool another name."
        )
    if pool.min_nodes > pool.max_nodes:
        message = f"is {pool.min_nodes}, more than maxNodes {pool.max_nodes}."
        yield Violation(f"{path}.minNodes", message, "lower minNodes or raise maxNodes.")
    yield from _capacity(pool, provider, path)
    yield from _class(pool, provider, path)
    yield from _reservation(pool, path)


def _capacity(pool: Pool, provider: Provider, path: str) -> Iterator[Violation]:
    legal = LEGAL_CAPACITY[provider]
    if pool.capacity not in legal:
        fix = suggestion(pool.capacity, legal, noun="capacity")
        yield Violation(f"{path}.capacity", f"{pool.capacity} does not exist on provider {provider}.", fix)
    if pool.capacity is Capacity.QUEUED and not pool.is_gpu:
        message = "a CPU pool cannot be queued: only GPUs are asked for, a CPU head needs a node at once."
        yield Violation(f"{path}.capacity", message, "use on-demand, or spot where the provider has it.")
    if pool.capacity is Capacity.QUEUED and pool.min_nodes:
        message = "a queued pool has no standing nodes: they come with a gang and go with it."
        yield Violation(f"{path}.minNodes", message, "remove minNodes, or use on-demand.")


def _class(pool: Pool, provider: Provider, path: str) -> Iterator[Violation]:
    queued = pool.capacity is Capacity.QUEUED
    if pool.provisioning_class is not None and not queued:
        message = f"only a queued pool has one; this one is {pool.capacity}."
        yield Violation(f"{path}.provisioningClass", message, "remove it, or write `capacity: queued`.")
    elif (
        pool.provisioning_class is not None and pool.provisioning_class not in PROVISIONING_CLASSES[provider]
    ):
        fix = suggestion(pool.provisioning_class, PROVISIONING_CLASSES[provider], noun="class")
        message = f"{pool.provisioning_class!r} is not served on provider {provider}."
        yield Violation(f"{path}.provisioningClass", message, fix)
    if pool.parameters and not queued:
        message = "are for the requests of a queued pool."
        yield Violation(f"{path}.parameters", message, "remove them, or write `capacity: queued`.")


def _reservation(pool: Pool, path: str) -> Iterator[Violation]:
    if pool.capacity.is_reserved and pool.reservation is None:
        message = f"capacity {pool.capacity} needs the reservation to take from."
        yield Violation(f"{path}.reservation", message, "write its name (GKE) or id (EKS, cr-...).")
    if not pool.capacity.is_reserved and pool.reservation is not None:
        # Queued nodes never come out of a reservation: GKE requires NO_RESERVATION of such a pool.
        message = f"capacity {pool.capacity} takes nothing from a reservation."
        yield Violation(f"{path}.reservation", message, "remove it, or write `capacity: reservation`.")
