"""`muster machines`."""

from decimal import Decimal
from typing import Final

import click

from muster.cli.command import command
from muster.cli.options import MemberType, json_option
from muster.cli.output import STDOUT, put, put_json
from muster.errors import ExitCode, MusterError
from muster.live.fields import format_columns
from muster.model.accelerators import ACCELERATORS
from muster.model.capacity import Capacity
from muster.model.machines import MACHINES, Machine, similar_machines
from muster.model.prices import BUILT_IN, Price
from muster.model.quantities import GIB
from muster.model.regions import Provider
from muster.model.violations import suggestion

_EXAMPLES = """
muster machines
muster machines h100
muster machines --provider gke
muster machines g2-standard-8 --json
"""
_HEAD: Final = ("Machine", "Cloud", "GPUs", "GPU", "GPU memory", "CPU", "Memory", "An hour", "Capacity")
_FIGURES: Final = ("GPUs", "GPU memory", "CPU", "Memory", "An hour")
_CODES = {ExitCode.UNUSABLE: "No machine and no GPU has this name."}


@command(examples=_EXAMPLES, codes=_CODES)
@click.argument("name", required=False)
@click.option(
    "--provider",
    type=MemberType((Provider.GKE, Provider.EKS)),
    help="Only the machines of this cloud.",
)
@click.option("--cpu", "with_cpu", is_flag=True, help="List machines without a GPU or TPU as well.")
@json_option
def cli(name: str | None, *, provider: Provider | None, with_cpu: bool, as_json: bool) -> None:
    """List the machines that a stack may name: GPU, memory, price, cloud.

    NAME is a machine, an accelerator, or its short name, such as h100. Prices are the on-demand prices of one
    node that Muster carries; `muster diff --prices` takes yours.
    """
    every = [each for each in MACHINES.values() if provider is None or each.provider is provider]
    found = [each for each in every if _is_meant(each, name, with_cpu=with_cpu)]
    if not found:
        raise _unknown(name or "", every)
    found.sort(key=lambda each: (_rank(each), each.provider.value, each.cpu, each.name))
    if as_json:
        put_json({"machines": [_record(each) for each in found]})
        return
    rows = [_row(each) for each in found]
    put(STDOUT, "\n".join(format_columns(_HEAD, rows, right=_FIGURES)) + "\n" + _note())


def _is_meant(machine: Machine, name: str | None, *, with_cpu: bool) -> bool:
    if name is None:
        return machine.accelerator is not None or with_cpu
    accelerator = ACCELERATORS.get(machine.accelerator or "")
    short = () if accelerator is None else (accelerator.name, *accelerator.short)
    return name.lower() in (machine.name, *short)


def _unknown(name: str, every: list[Machine]) -> MusterError:
    known = {each.name: each for each in every}
    near = similar_machines(name, known)
    words = {each.name for each in ACCELERATORS.values()}
    fix = f"did you mean {near[0]}?" if near else suggestion(name, words, noun="accelerator")
    return MusterError(f"there is no machine and no accelerator {name!r}.", fix=fix)


def _rank(machine: Machine) -> int:
    """The scarcest GPU last, as Muster tries them; machines without one first."""
    accelerator = ACCELERATORS.get(machine.accelerator or "")
    return -1 if accelerator is None else accelerator.rank


def _row(machine: Machine) -> tuple[str, ...]:
    accelerator = ACCELERATORS.get(machine.accelerator or "")
    return (
        machine.name,
        machine.provider.value,
        " or ".join(map(str, machine.gpu_counts)) if accelerator else "",
        accelerator.name if accelerator else "",
        f"{round(accelerator.memory_mib / 1024)} GiB" if accelerator else "",
        f"{machine.cpu / 1000:g}",
        f"{machine.memory // GIB} GiB",
        _format_prices(machine),
        ", ".join(sorted(machine.bought)),
    )


def _prices(machine: Machine) -> list[Price]:
    """On-demand prices of a node, the cheapest first. GPUs that are attached have a price for each count."""
    named = f"{machine.name} with "
    return sorted(
        (
            each
            for each in BUILT_IN.prices
            if each.capacity is Capacity.ON_DEMAND
            and (each.machine == machine.name or each.machine.startswith(named))
        ),
        key=lambda each: (each.hourly, each.region),
    )


def _format_prices(machine: Machine) -> str:
    prices: list[Decimal] = [each.hourly for each in _prices(machine)]
    if not prices:
        return "not priced"
    return f"from {prices[0]:.2f}" if prices[0] != prices[-1] else f"{prices[0]:.2f}"


def _record(machine: Machine) -> dict[str, object]:
    accelerator = ACCELERATORS.get(machine.accelerator or "")
    return {
        "machine": machine.name,
        "provider": machine.provider.value,
        "accelerator": machine.accelerator,
        "accelerators": list(machine.gpu_counts) if accelerator else [],
        "acceleratorMemoryMiB": accelerator.memory_mib if accelerator else None,
        "cpu": machine.cpu / 1000,
        "memoryMiB": machine.memory // 2**20,
        "capacity": sorted(machine.bought),
        "prices": [
            {
                "machine": each.machine,
                "region": each.region,
                "hourly": str(each.hourly),
                "currency": each.currency,
                "read": each.read.isoformat(),
            }
            for each in _prices(machine)
        ],
    }


def _note() -> str:
    days = {each.read for each in BUILT_IN.prices}
    currencies = ", ".join(sorted({each.currency for each in BUILT_IN.prices}))
    return (
        f"\nPrices: {currencies}, on demand, in the cheapest region that Muster has a price of; "
        f"read {min(days)} to {max(days)}.\n"
    )
