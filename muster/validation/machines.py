"""Machines: what a pool may be made of, and how that may be bought.

    choice_rules(choice, path)  every illegal combination of provider, machine, accelerator, GPUs and capacity
    beside_node(...)            keys of a machine in a pool whose nodes are described
    described_rules(...)        a warning for figures that no table confirms
    gpudirect_rules(...)        networks between GPUs
    tpu_rules(...)              the topologies of a TPU machine, and pools that are one slice

Based on the machine tables and on what each provider has. The other keys of a pool are in pools.py. A slice
of several nodes is one node pool, which GKE makes, repairs and deletes as a whole:
https://cloud.google.com/kubernetes-engine/docs/concepts/tpus
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from muster.model.accelerators import ACCELERATORS, accelerators_of
from muster.model.capacity import LEGAL_CAPACITY, Capacity
from muster.model.clusters import Cluster
from muster.model.machines import FURTHER_NETWORKS, MACHINES, Machine, machines_of, similar_machines
from muster.model.pools import Pool
from muster.model.quantities import GIB
from muster.model.regions import Provider
from muster.model.stack import Stack
from muster.model.tenancy import Namespaces
from muster.model.violations import Violation, suggestion

# The keys of a pool that choose a machine of a table.
OF_A_MACHINE: Final = ("machine", "accelerator", "gpusPerNode")
_MOST_NAMED: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A pool's choice. `accelerator` and `gpus` are None where the machine decides."""

    provider: Provider
    machine: str
    accelerator: str | None = None
    gpus: int | None = None
    capacity: Capacity = Capacity.ON_DEMAND


def choice_rules(choice: Choice, path: str) -> list[Violation]:
    """Every way in which the combination is illegal; `path` is the pool's."""
    return [*made_of(choice, path), *bought(choice, path)]


def beside_node(path: str, provider: Provider, name: str | None, keys: Collection[str]) -> list[Violation]:
    """A pool whose nodes are described by `node`; `keys` are those of OF_A_MACHINE that it has, `name` its
    machine type. A cloud makes nodes of a machine type, whose figures `node` gives where no table does.
    """
    inside = {"machine": "", "accelerator": "accelerator", "gpusPerNode": "gpus"}
    if provider is not Provider.EXISTING:
        if "machine" not in keys:
            message = f"is missing: provider {provider} makes nodes of its own machine types."
            return [Violation(f"{path}.machine", message, "write its name; `node` gives its figures.")]
        if name in machines_of(provider):
            message = f"the table has the figures of machine {name}."
            return [Violation(f"{path}.node", message, "remove it.")]
        del inside["machine"]
    fixes = {
        key: f"write `{inside[key]}` in `node`." if inside[key] else "keep one of the two."
        for key in inside
        if key in keys
    }
    return [
        Violation(f"{path}.{key}", "the nodes are described by `node`.", fix) for key, fix in fixes.items()
    ]


def described_rules(machine: Machine, path: str) -> Iterator[Violation]:
    """A cloud's machine that the stack describes: nothing here knows whether it is as described."""
    if machine.is_own and machine.provider is not Provider.EXISTING:
        message = (
            f"{machine.name} is not in the machine table: its figures are yours, and so is how it is sold."
        )
        fix = "nothing, if they are right; `muster doctor` compares them with the cloud's own."
        yield Violation(f"{path}.node", message, fix, level="warning")


def made_of(choice: Choice, path: str) -> list[Violation]:
    """Whether the provider has the machine, and the machine those GPUs."""
    known = machines_of(choice.provider)
    if choice.machine not in known:
        return [_unknown(choice, known, path)]
    machine = known[choice.machine]
    return [*_accelerator(choice, machine, path), *_gpus(choice, machine, path)]


def _unknown(choice: Choice, known: Mapping[str, Machine], path: str) -> Violation:
    """A machine of another cloud is answered with those of this one that carry the same GPU, or are as
    large.
    """
    message = f"{choice.machine!r} is not in the machine table of provider {choice.provider}"
    other = MACHINES.get(choice.machine)
    if other is not None and other.is_tpu:
        message = f"{choice.machine} has TPUs, which Google sells and no other cloud."
        return Violation(f"{path}.machine", message, "use provider gke, or a machine with GPUs.")
    if other is None:
        place = "in place of" if choice.provider is Provider.EXISTING else "beside"
        fix = f"describe it by `node: {{cpu: ..., memory: ...}}` {place} `machine`"
        near = similar_machines(choice.machine, known)
        fix = f"{fix}; or {suggestion(choice.machine, near, noun='machine')}" if near else f"{fix}."
        return Violation(f"{path}.machine", f"{message}.", fix)
    same = [
        each.name
        for each in known.values()
        if each.accelerator == other.accelerator
        and (other.accelerator or (each.cpu, each.memory // GIB) == (other.cpu, other.memory // GIB))
    ][:_MOST_NAMED]
    what = f"with {other.accelerator}" if other.accelerator else "of that size"
    fix = (
        f"choose one {what}: {', '.join(same)}."
        if same
        else f"choose another: provider {choice.provider} has none {what}."
    )
    return Violation(f"{path}.machine", f"{message}, it is one of {other.provider}.", fix)


def bought(choice: Choice, path: str) -> list[Violation]:
    """Whether the provider sells nodes in that way, and this machine in particular."""
    legal = LEGAL_CAPACITY[choice.provider]
    if choice.capacity not in legal:
        message = f"{choice.capacity} does not exist on provider {choice.provider}."
        fix = suggestion(choice.capacity, legal, noun="capacity")
        return [Violation(f"{path}.capacity", message, fix)]
    machine = MACHINES.get(choice.machine)
    if machine is None or machine.provider is not choice.provider or choice.provider is Provider.EXISTING:
        # Muster does not buy the nodes of an existing cluster.
        return []
    return list(_sold(choice.capacity, machine, path))


def gpus_of(choice: Choice) -> int:
    """GPUs of one node of a sound choice. A machine to which GPUs are attached may also go without."""
    machine = MACHINES[choice.machine]
    if choice.gpus is not None:
        return choice.gpus
    return 0 if _attaches(machine) or not machine.gpu_counts else machine.gpu_counts[0]


def _attaches(machine: Machine) -> bool:
    return len(machine.gpu_counts) > 1


def _accelerator(choice: Choice, machine: Machine, path: str) -> Iterator[Violation]:
    named = choice.accelerator
    if named is None or machine.accelerator in accelerators_of(named):
        return
    if not accelerators_of(named):
        fix = suggestion(named, ACCELERATORS, noun="accelerator")
        yield Violation(f"{path}.accelerator", f"{named!r} is unknown.", fix)
        return
    carried = machine.accelerator or "no GPU"
    machines = [
        each.name
        for each in machines_of(choice.provider).values()
        if each.accelerator in accelerators_of(named)
    ]
    others = f"choose a machine that carries it: {', '.join(machines)}." if machines else ""
    fix = others or f"provider {choice.provider} has no machine with it: choose another accelerator."
    message = f"machine {machine.name} carries {carried}, not {named}."
    yield Violation(f"{path}.accelerator", message, fix)


def _gpus(choice: Choice, machine: Machine, path: str) -> Iterator[Violation]:
    counts = ", ".join(str(count) for count in machine.gpu_counts)
    fix = f"write one of: {counts}." if counts else "write 0, or choose a machine with GPUs."
    if choice.gpus is None:
        if _attaches(machine) and choice.accelerator is not None:
            message = f"is missing: {machine.name} can carry several."
            yield Violation(f"{path}.gpusPerNode", message, fix)
        return
    may_be_bare = _attaches(machine) or not machine.gpu_counts
    if choice.gpus not in machine.gpu_counts and not (choice.gpus == 0 and may_be_bare):
        message = f"machine {machine.name} cannot carry {choice.gpus}."
        yield Violation(f"{path}.gpusPerNode", message, fix)
    if choice.gpus == 0 and choice.accelerator is not None and may_be_bare:
        message = f"is 0, but accelerator {choice.accelerator} is set."
        yield Violation(f"{path}.gpusPerNode", message, f"{fix[:-1]}, or leave `accelerator` out.")


def _sold(capacity: Capacity, machine: Machine, path: str) -> Iterator[Violation]:
    if capacity not in machine.bought:
        if capacity is Capacity.QUEUED and machine.accelerator is None:
            # The rule about CPU pools has the better message, for every machine.
            return
        ways = ", ".join(each for each in LEGAL_CAPACITY[machine.provider] if each in machine.bought)
        message = f"{machine.name} is not sold as {capacity}; it is as {ways}."
        yield Violation(f"{path}.capacity", message, _other(capacity, machine))
    elif capacity in machine.unsourced:
        message = f"no page of the provider confirms that {machine.name} is sold as {capacity}."
        if machine.is_tpu and capacity is Capacity.QUEUED:
            message = f"sources contradict each other on whether {machine.name} can be queued for."
        fix = "try it in a project of its own first; the cloud's refusal would come in the middle of `up`."
        yield Violation(f"{path}.capacity", message, fix, level="warning")


def _other(capacity: Capacity, machine: Machine) -> str:
    """Machines of the same cloud and GPU that are sold in the wanted way."""
    same = [
        each.name
        for each in machines_of(machine.provider).values()
        if each.accelerator == machine.accelerator and capacity in each.bought
    ]
    return f"use one of those, or the machine {' or '.join(same)}." if same else "use one of those."


# GPUDirect on GKE: a pool's `networks` are refused where no job could use them.
# Muster attaches networks that exist and sets up nothing else of GPUDirect: half of it would cost the pool
# its plain form and speed nothing up. docs/fast-networks.md says what the rest is.

_REMOVE: Final = "remove `networks`: jobs of several nodes then talk over the first network card"


def gpudirect_rules(stack: Stack) -> Iterator[Violation]:
    if not stack.cluster.is_ours:
        return
    for pool in stack.pools:
        if pool.networks and pool.machine.fabric is not None:
            yield from _of_pool(stack, pool, f"muster:pools.{pool.name}.networks")


def _of_pool(stack: Stack, pool: Pool, path: str) -> Iterator[Violation]:
    """The pods of GPUDirect mount folders of their node and add capabilities, both of which the Pod Security
    Standards of teams' namespaces forbid:
    https://github.com/GoogleCloudPlatform/container-engine-accelerators/tree/master/gpudirect-tcpxo
    https://kubernetes.io/docs/concepts/security/pod-security-standards/
    """
    fabric = pool.machine.fabric
    if fabric is None:
        return
    wanted, given = FURTHER_NETWORKS[fabric], len(pool.networks)
    if given != wanted:
        message = f"{fabric} of {pool.machine.name} takes {wanted} further networks, and {given} are named."
        yield Violation(path, message, f"name {wanted}, in the order of the cards, or {_REMOVE}.")
    if stack.tenancy.namespaces is not Namespaces.EXISTING:
        level = stack.tenancy.pod_security
        message = (
            f"no pod of a team can use {fabric}: it mounts folders of its node, which the Pod Security "
            f"Standard {level} of teams' namespaces forbids."
        )
        fix = f"{_REMOVE}; or bring namespaces of your own, `muster:tenancy: {{namespaces: existing}}`."
        yield Violation(path, message, fix)


def tpu_rules(pool: Pool, cluster: Cluster, path: str) -> Iterator[Violation]:
    known = pool.machine.topologies
    if not known:
        if pool.topology is not None:
            message = f"machine {pool.machine.name} has no TPUs, whose slices have a topology."
            yield Violation(f"{path}.topology", message, "remove it, or choose a machine with TPUs.")
        return
    if pool.topology not in known:
        yield _unknown_slice(pool, path)
    elif pool.slice_nodes > 1:
        yield from _slice(pool, cluster, path)


def _unknown_slice(pool: Pool, path: str) -> Violation:
    others = [
        name
        for name, each in MACHINES.items()
        if each.accelerator == pool.machine.accelerator and pool.topology in each.topologies
    ]
    fix = f"choose the machine {' or '.join(others)}, or " if others else ""
    fix += suggestion(pool.topology or "", pool.machine.topologies, noun="topology")
    message = f"machine {pool.machine.name} comes in no slice of {pool.topology}."
    return Violation(f"{path}.topology", message, fix)


def _slice(pool: Pool, cluster: Cluster, path: str) -> Iterator[Violation]:
    nodes = pool.slice_nodes
    if pool.max_nodes != nodes:
        message = f"a slice of {pool.topology} is {nodes} nodes of {pool.machine.name}: the whole pool."
        fix = f"write {nodes}; more slices are more pools."
        yield Violation(f"{path}.maxNodes", message, fix)
    if pool.min_nodes not in (0, nodes) and pool.capacity is not Capacity.QUEUED:
        message = f"all {nodes} nodes of a slice come and go at once."
        yield Violation(f"{path}.minNodes", message, f"write {nodes} to keep the slice, or remove minNodes.")
    if not cluster.is_ours:
        return
    zones = cluster.zones_of(pool)
    if len(zones) != 1:
        message = "all nodes of a slice are in one zone."
        one_of = f", one of {', '.join(zones)}" if zones else ""
        yield Violation(f"{path}.zones", message, f"write the one zone: zones: [...]{one_of}.")
    elif not pool.zones and len(cluster.zones) != 1:
        message = f"the slice is made in {zones[0]}, where Google sells {pool.machine.name}."
        fix = f"write that zone, or another, so that no later table moves the slice: zones: [{zones[0]}]."
        yield Violation(f"{path}.zones", message, fix, "warning")
