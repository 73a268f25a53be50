"""Pools: the keys that a capacity type requires, and what a provider and machine support.

The reference page of a rule is named at the rule. Which machine is sold with which capacity type is in
machines.py; image, disks, placement and networks are in nodes.py.
"""

from collections.abc import Iterator
from typing import Final

from muster.model import names
from muster.model.capacity import LEGAL_CAPACITY, PROVISIONING_CLASSES, Capacity
from muster.model.clusters import Cluster
from muster.model.pools import MOST_RUN, Pool
from muster.model.providers import Provider
from muster.model.stack import Stack
from muster.model.violations import Violation, suggestion
from muster.validation.fallback import fallback_rules
from muster.validation.machines import Choice, bought, choice_rules, described_rules
from muster.validation.nodes import node_group_rules, node_rules
from muster.validation.tpus import tpu_rules

# Kueue takes at most 64 flavors in a resource group, and all pools share one.
MOST_POOLS: Final = 64
# Flex-start nodes live ten minutes at least:
# https://cloud.google.com/compute/docs/instance-groups/about-resize-requests-mig
LEAST_RUN: Final = 600
_RUN: Final = "maxRunDurationSeconds"


def pool_rules(stack: Stack) -> list[Violation]:
    """Every rule about pools."""
    found = [violation for pool in stack.pools for violation in _pool(pool, stack.cluster)]
    if not stack.cpu_pools and not stack.kueue.flavors:
        message = (
            "has no CPU pool: heads of gangs and CPU jobs run on nodes with GPUs, take CPU and memory from "
            "the work there, and keep the node while they run."
        )
        fix = (
            "nothing, if that is meant: such pods tolerate nvidia.com/gpu, and leave workers less than a "
            "whole node. Otherwise add `cpu: {machine: ..., maxNodes: ...}`."
        )
        found.append(Violation("muster:pools", message, fix, level="warning"))
    found += node_group_rules(stack.pools, stack.cluster)
    if len(stack.pools) > MOST_POOLS:
        message = f"has {len(stack.pools)} pools; Kueue takes {MOST_POOLS} in a resource group."
        found.append(Violation("muster:pools", message, "merge pools of the same machine."))
    return found


def _pool(pool: Pool, cluster: Cluster) -> Iterator[Violation]:
    path = f"muster:pools.{pool.name}"
    provider = cluster.provider
    if pool.name == names.SYSTEM_POOL:
        yield Violation(
            path, f"the name {pool.name!r} is the system's own pool.", "give the pool another name."
        )
    if pool.min_nodes > pool.max_nodes:
        message = f"is {pool.min_nodes}, more than maxNodes {pool.max_nodes}."
        yield Violation(f"{path}.minNodes", message, "lower minNodes or raise maxNodes.")
    yield from (bought if pool.machine.is_own else choice_rules)(_choice(pool, provider), path)
    yield from described_rules(pool.machine, path)
    yield from fallback_rules(pool, cluster, _choice(pool, provider))
    yield from _standing(pool, path)
    yield from _class(pool, provider, path)
    yield from _run(pool, provider, path)
    yield from _reservation(pool, provider, path)
    yield from node_rules(pool, cluster, path)
    yield from _unanswered(pool, cluster, path)
    yield from tpu_rules(pool, cluster, path)


def _choice(pool: Pool, provider: Provider) -> Choice:
    return Choice(
        provider=provider,
        machine=pool.machine.name,
        accelerator=pool.machine.accelerator if pool.is_gpu else None,
        gpus=pool.gpus_per_node,
        capacity=pool.capacity,
    )


def _standing(pool: Pool, path: str) -> Iterator[Violation]:
    if pool.capacity is Capacity.QUEUED and not pool.is_gpu:
        message = "a CPU pool cannot be queued: only GPUs are requested, and a CPU head needs a node at once."
        yield Violation(f"{path}.capacity", message, "use on-demand, or spot where the provider has it.")
    if pool.capacity is Capacity.QUEUED and pool.min_nodes:
        message = "a queued pool has no permanent nodes: they are made for a gang and deleted after it."
        yield Violation(f"{path}.minNodes", message, "remove minNodes, or use on-demand.")
    if pool.capacity is Capacity.FLEX_START and pool.min_nodes:
        message = "flex-start nodes are given for a time and taken away, so there are no permanent ones."
        yield Violation(f"{path}.minNodes", message, "remove minNodes, or use on-demand.")
    if pool.capacity is Capacity.CAPACITY_BLOCK and pool.min_nodes:
        # https://docs.aws.amazon.com/eks/latest/userguide/capacity-blocks-mng.html
        message = (
            "a capacity block has no nodes before it begins and after it ends, so there are no "
            "permanent ones."
        )
        yield Violation(f"{path}.minNodes", message, "remove minNodes: nodes come with the work.")


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


def _run(pool: Pool, provider: Provider, path: str) -> Iterator[Violation]:
    """How long nodes live, and how long a gang may ask for them: never longer."""
    if pool.max_run is not None and provider is not Provider.GKE:
        message = f"provider {provider} does not take nodes away after a time."
        yield Violation(f"{path}.maxRunDuration", message, "remove it.")
    elif pool.max_run is not None and pool.capacity in (Capacity.QUEUED, Capacity.FLEX_START):
        yield from _within(f"{path}.maxRunDuration", pool.max_run)
    asked = pool.parameters.get(_RUN)
    if asked is None or pool.provisioning_class != names.GKE_QUEUED_CLASS:
        return
    if not asked.isdecimal():
        fix = "write seconds, such as 86400."
        yield Violation(f"{path}.parameters.{_RUN}", f"{asked!r} is no number of seconds.", fix)
        return
    most = pool.max_run or MOST_RUN
    if int(asked) > most:
        message = f"requests {asked} s, but nodes of the pool are deleted after {most} s."
        fix = f"write at most {most}, or raise maxRunDuration (at most {MOST_RUN} s, seven days)."
        yield Violation(f"{path}.parameters.{_RUN}", message, fix)
    else:
        yield from _within(f"{path}.parameters.{_RUN}", int(asked))


def _within(path: str, seconds: int) -> Iterator[Violation]:
    if not LEAST_RUN <= seconds <= MOST_RUN:
        message = f"is {seconds} s; flex-start nodes live from {LEAST_RUN} s to {MOST_RUN} s."
        yield Violation(path, message, "write something between ten minutes and seven days: 24h.")


def _reservation(pool: Pool, provider: Provider, path: str) -> Iterator[Violation]:
    if pool.capacity not in LEGAL_CAPACITY[provider]:
        return
    if pool.capacity.is_reserved and pool.reservation is None:
        message = f"capacity {pool.capacity} needs the reservation to take from."
        yield Violation(f"{path}.reservation", message, "write its name (GKE) or id (EKS, cr-...).")
    if not pool.capacity.is_reserved and pool.reservation is not None:
        # Queued nodes never come out of a reservation: GKE requires NO_RESERVATION of such a pool.
        message = f"capacity {pool.capacity} takes nothing from a reservation."
        yield Violation(f"{path}.reservation", message, "remove it, or write `capacity: reservation`.")
    if not pool.capacity.is_reserved or pool.reservation is None:
        return
    given = pool.reservation
    if provider is Provider.EKS:
        is_id = given.name.startswith("cr-")
        if not is_id and not (given.is_group and pool.capacity is Capacity.RESERVATION):
            message = f"{given.name!r} is no id of a capacity reservation or block."
            fix = "write its id, cr-..., or for `capacity: reservation` the ARN of a resource group of them."
            yield Violation(f"{path}.reservation", message, fix)
        if given.project is not None:
            message = "a reservation of EC2 that another account shares has the same id here."
            yield Violation(f"{path}.reservation.project", message, "remove `project`.")
    if len(pool.zones) != 1 and not given.is_group:
        message = f"{given.name} is in one zone, but the pool has {len(pool.zones) or 'all'}."
        yield Violation(f"{path}.zones", message, "write the zone of the reservation: zones: [...].")


def _unanswered(pool: Pool, cluster: Cluster, path: str) -> Iterator[Violation]:
    """A queued pool without an autoscaler for ProvisioningRequests would wait for ever."""
    if pool.capacity is Capacity.QUEUED and not cluster.answers_requests:
        message = f"autoscaler {cluster.autoscaler} answers no ProvisioningRequest: no node would come."
        yield Violation(f"{path}.capacity", message, "use on-demand, or an autoscaler that answers them.")
