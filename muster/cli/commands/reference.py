"""`muster explain`, `schema` and `machines`: the keys of a stack file, and the machines that it may name."""

import textwrap
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Final

import click
import yaml
from click.shell_completion import get_completion_class

from muster.cli.command import COMPLETION, command
from muster.cli.options import MemberType, json_option
from muster.cli.output import STDOUT, put, put_json, terminal_columns
from muster.columns import format_columns
from muster.config.schema import part_schema, stack_schema
from muster.config.schema.keys import Key, find_keys, stack_keys
from muster.errors import ExitCode, MusterError
from muster.model.accelerators import ACCELERATORS
from muster.model.capacity import Capacity
from muster.model.machines import MACHINES, Machine, similar_machines
from muster.model.prices import BUILT_IN, Price
from muster.model.quantities import GIB
from muster.model.regions import Provider
from muster.model.violations import suggestion

_EXPLAIN_EXAMPLES = """
muster explain
muster explain pools.machine
muster explain bootDiskGiB
muster explain departments.research.teams.vision.quota --json
"""
_WORDS: Final = "  One of:   "
_INDENT: Final = " " * len(_WORDS)
_CODES = {ExitCode.UNUSABLE: "No key has this path."}


def _complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    return [each.path for each in stack_keys() if each.path.startswith(incomplete)]


@command(examples=_EXPLAIN_EXAMPLES, codes=_CODES)
@click.argument("key", required=False, shell_complete=_complete)
@json_option
def explain(key: str | None, *, as_json: bool) -> None:
    """Explain a key of the stack file: what it is for, its values, its default, an example.

    KEY is a path, such as pools.machine, or the end of one; it may contain names of your own. Without KEY,
    the keys of the first level are listed.
    """
    found = find_keys(key) if key else tuple(each for each in stack_keys() if not each.parent)
    if not found:
        raise _unknown(key or "")
    if as_json:
        put_json({"keys": [_record(each) for each in found]})
    elif key:
        put(STDOUT, "\n".join("\n".join(_lines(each)) + "\n" for each in found))
    else:
        put(STDOUT, "\n".join(_list(found)) + "\n")


def format_value(value: object) -> str:
    """A value in one line of YAML."""
    text = yaml.safe_dump(value, default_flow_style=True, width=10**6, sort_keys=False)
    return text.removesuffix("...\n").strip()


def _unknown(key: str) -> MusterError:
    known = {each.name for each in stack_keys()}
    word = key.rpartition(".")[2]
    fix = suggestion(word, known, noun="key").partition(" Allowed:")[0]
    if word in known:
        fix = f"ask for the word alone: muster explain {word}."
    elif fix.startswith("use one of"):
        fix = "list the keys of the first level: muster explain."
    return MusterError(f"{key!r} is not a key of a stack.", fix=fix, exit_code=ExitCode.UNUSABLE)


def _record(key: Key) -> Mapping[str, object]:
    return {
        "path": key.path,
        "provider": key.provider.value if key.provider else None,
        "sentence": key.sentence,
        "kind": key.kind,
        "allowed": list(key.allowed),
        "required": key.required,
        "default": key.default or None,
        "example": {key.name: key.example},
        "keys": [each.name for each in _keys_below(key)],
    }


def _lines(key: Key) -> Iterator[str]:
    yield f"{key.path} ({key.provider})" if key.provider else key.path
    yield f"  {key.sentence}"
    yield f"  Value:    {key.kind}"
    if key.name == "machine":
        yield f"{_WORDS}the {len(key.allowed)} that `muster machines --cpu` lists with their GPUs and prices"
    elif key.allowed:
        yield textwrap.fill(", ".join(key.allowed), 100, initial_indent=_WORDS, subsequent_indent=_INDENT)
    if key.required:
        yield "  Required"
    elif key.default:
        yield f"  Default:  {key.default}"
    yield f"  Example:  {key.name}: {format_value(key.example)}"
    if below := _keys_below(key):
        yield "  Keys:"
        yield from (f"    {line}" for line in _list(below))


def _keys_below(key: Key) -> tuple[Key, ...]:
    if not key.below:
        return ()
    return tuple(
        each for each in stack_keys() if each.parent == key.below and key.provider in (each.provider, None)
    )


def _list(keys: tuple[Key, ...]) -> Iterator[str]:
    width = max(len(key.name) for key in keys)
    for key in keys:
        yield f"{key.name:{width}}  {key.sentence}"


_SCHEMA_EXAMPLES = """
muster schema > stacks/schema.json
muster schema --part > stacks/part.schema.json
check-jsonschema --schemafile stacks/schema.json stacks/Pulumi.*.yaml
"""


@command(examples=_SCHEMA_EXAMPLES)
@click.option("--part", is_flag=True, help="Print the schema of files that extend another or are extended.")
def schema(*, part: bool) -> None:
    """Print the JSON Schema of a stack file, with which an editor completes and checks it.

    An editor with the YAML language server finds it through the first line of a stack file, which `muster
    init` writes: `# yaml-language-server: $schema=schema.json`. Only `muster validate` checks rules between
    keys.
    """
    put_json(part_schema() if part else stack_schema())


_MACHINES_EXAMPLES = """
muster machines
muster machines h100
muster machines --provider gke
muster machines g2-standard-8 --json
"""
_HEAD: Final = ("Machine", "Cloud", "GPUs", "GPU", "GPU memory", "CPU", "Memory", "An hour", "Capacity")
_FIGURES: Final = ("GPUs", "GPU memory", "CPU", "Memory", "An hour")
_MINOR: Final = ("Memory", "CPU", "GPU memory")
_MACHINES_CODES = {ExitCode.UNUSABLE: "No machine and no GPU has this name."}


@command(examples=_MACHINES_EXAMPLES, codes=_MACHINES_CODES)
@click.argument("name", required=False)
@click.option(
    "--provider",
    type=MemberType((Provider.GKE, Provider.EKS)),
    help="Only the machines of this cloud.",
)
@click.option("--cpu", "with_cpu", is_flag=True, help="List machines without a GPU or TPU as well.")
@json_option
def machines(name: str | None, *, provider: Provider | None, with_cpu: bool, as_json: bool) -> None:
    """List the machines that a stack may name: GPU, memory, price, cloud.

    NAME is a machine, an accelerator, or its short name, such as h100. Prices are the on-demand prices of one
    node that Muster carries; `muster diff --prices` takes yours.
    """
    every = [each for each in MACHINES.values() if provider is None or each.provider is provider]
    found = [each for each in every if _is_meant(each, name, with_cpu=with_cpu)]
    if not found:
        raise _unknown_machine(name or "", every)
    found.sort(key=lambda each: (_rank(each), each.provider.value, each.cpu, each.name))
    if as_json:
        put_json({"machines": [_machine_record(each) for each in found]})
        return
    rows = [_row(each) for each in found]
    table = format_columns(_HEAD, rows, right=_FIGURES, room=terminal_columns(), minor=_MINOR)
    put(STDOUT, "\n".join(table) + "\n" + _note())


def _is_meant(machine: Machine, name: str | None, *, with_cpu: bool) -> bool:
    if name is None:
        return machine.accelerator is not None or with_cpu
    accelerator = ACCELERATORS.get(machine.accelerator or "")
    short = () if accelerator is None else (accelerator.name, *accelerator.short)
    return name.lower() in (machine.name, *short)


def _unknown_machine(name: str, every: list[Machine]) -> MusterError:
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


def _machine_record(machine: Machine) -> dict[str, object]:
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


# `muster completion`.


_COMPLETION_EXAMPLES = """
eval "$(muster completion bash)"
eval "$(muster completion zsh)"
muster completion fish > ~/.config/fish/completions/muster.fish
"""


@command(examples=_COMPLETION_EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell. It completes commands, options and the names of stacks."""
    found = get_completion_class(shell)
    root = click.get_current_context().find_root().command
    if found is None:
        raise MusterError(f"{shell}: no completion is known.", fix="use bash, zsh or fish.")
    click.echo(found(root, {}, "muster", COMPLETION).source())
