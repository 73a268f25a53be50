"""Machines: what a pool may be made of, and how that may be bought.

    choice_rules(choice, path)  every illegal combination of provider, machine, accelerator, GPUs and capacity
    beside_node(...)            keys of a machine in a pool whose nodes are described
    described_rules(...)        a warning for figures that no table confirms

Based on the machine tables and on what each provider has. The other keys of a pool are in pools.py.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from muster.model.accelerators import ACCELERATORS, accelerators_of
from muster.model.capacity import LEGAL_CAPACITY, Capacity
from muster.model.machines import MACHINES, Machine, machines_of, similar_machines
from muster.model.quantities import GIB
from muster.model.regions import Provider
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
