"""The page of accelerators, machines and prices, from the tables of the model."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from muster.model import machines
from muster.model.accelerators import ACCELERATORS, SHORT_NAMES
from muster.model.capacity import Capacity
from muster.model.machines import MACHINES, Machine
from muster.model.prices import BUILT_IN
from muster.model.quantities import GIB
from muster.model.regions import Provider
from release.reference.markdown import WRITTEN, code, item, table

_HEAD: Final = f"""\
# Accelerators, machines and prices

{WRITTEN}

A pool names a machine in `muster:pools.POOL.machine`. An existing cluster may use the machines of any
cloud, or describe its own nodes. `muster machines NAME` prints a machine, or all machines with a GPU, with
its price and what pods can request.

## Accelerators

The rank orders accelerators from the most common to the scarcest: a gang over several pools requests the one
with the highest rank first. Memory is that of one GPU or TPU chip: of the H100 and the
H200 as their driver reports it, of the others from the vendor's data sheets. MIG profiles: those that were
read; `sharing: mig` takes no others. A GPU that is not here is written in `node`, with its memory.
"""
_MACHINES: Final = """\
A machine has its vCPUs, GiB of memory and number of accelerators in brackets. *No source*: no page of the
cloud confirms or denies that it sells the machine with this capacity. Another machine of the cloud is written
with its figures: `machine: NAME` and `node: {cpu: ..., memory: ...}`. `muster machines --cpu` lists those
without accelerators.
"""
_TITLES: Final = {
    Provider.GKE: "Machines on GKE",
    Provider.EKS: "Machines on EKS",
    Provider.EXISTING: "Machines of the local cluster",
}
_MODULES: Final = {Provider.GKE: (machines,), Provider.EKS: (), Provider.EXISTING: ()}
"""The tables whose docstrings name sources."""
_READ, _SOURCE = machines.zones_read()
_ZONES: Final = f"""\
## Zones that sell GPU machines on GKE

Read on {_READ} in SkyPilot's catalog (<{_SOURCE}>), which is
written from the answers of Google's API. A pool without `zones` gets those of its region. TPUs and T4s are
not in the catalog. `muster doctor` asks your project.
"""
_PRICES: Final = """\
## Prices

A report shows costs only for machines with a price, with its source and day; it says so where the day is
more than 90 days ago. A reservation costs what its machines cost on demand. Not on these lists: other
regions, Spot on EC2, capacity blocks, flex-start. Give yours:
`muster diff STACK --prices FILE`, and the setting `prices` of the policy
[`cost-ceiling`](policies.md#cost-ceiling). Your prices override these; `muster doctor STACK --prices FILE`
reads the cloud's list.
"""


def page() -> str:
    """The whole page."""
    parts = [_HEAD, "\n".join(_accelerators()), "", _MACHINES]
    for provider, title in _TITLES.items():
        here = [each for each in MACHINES.values() if each.provider is provider]
        is_cloud = provider is not Provider.EXISTING
        parts += [
            f"## {title}\n",
            *_sources(provider),
            "\n".join(_by_accelerator(here, is_cloud=is_cloud)),
            "",
        ]
    parts += [_ZONES, table(("Machines", "Zones"), _zones())]
    parts += [_PRICES, table(("Region", "Capacity", "Machines", "Read on", "Source"), _prices())]
    return "\n".join(parts)


def _accelerators() -> Iterator[str]:
    """In the order of their rank."""
    for each in sorted(ACCELERATORS.values(), key=lambda each: each.rank):
        short = ", ".join(code(short) for short, meant in SHORT_NAMES.items() if each.name in meant)
        profiles = f"MIG {', '.join(map(code, each.mig))}" if each.mig else ""
        remarks = (f"{each.memory_mib / 1024:.4g} GiB", f"rank {each.rank}", code(each.resource), profiles)
        yield item(code(each.name), remarks, f"also {short}" if short else "")


def _by_accelerator(machines: list[Machine], *, is_cloud: bool) -> Iterator[str]:
    """A line for the machines with one accelerator that are sold and connected alike."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for each in machines:
        if each.accelerator or not is_cloud:
            network = each.fabric.value if each.fabric else "EFA" if each.efa else ""
            alike.setdefault((each.accelerator or "", network, _sold(each)), []).append(_size(each))
    for (accelerator, network, sold), names in alike.items():
        yield item(code(accelerator) or "no accelerator", (network, sold), ", ".join(names))


def _size(machine: Machine) -> str:
    counts = "/".join(map(str, machine.gpu_counts)) if machine.accelerator else ""
    sizes = filter(None, (f"{machine.cpu / 1000:g}", f"{machine.memory / GIB:g}", counts))
    return f"{code(machine.name)} ({', '.join(sizes)})"


def _sold(machine: Machine) -> str:
    return ", ".join(
        f"{each} (no source)" if each in machine.unsourced else str(each)
        for each in Capacity
        if each in machine.bought | machine.unsourced
    )


def _sources(provider: Provider) -> Iterator[str]:
    texts = (module.__doc__ or "" for module in _MODULES[provider])
    found = [address.rstrip(".,;:") for text in texts for address in re.findall(r"https://[^\s)]+", text)]
    found = [*machines.sources(provider), *found]
    if found:
        yield f"Sources: {', '.join(f'<{each}>' for each in dict.fromkeys(found))}.\n"


def _zones() -> Iterator[tuple[str, str]]:
    """Machines that the same zones sell, in one row."""
    listed_by_zones: dict[frozenset[str], list[str]] = {}
    for each in MACHINES.values():
        if zones := machines.zones_selling(each.name):
            listed_by_zones.setdefault(zones, []).append(each.name)
    for zones, listed in listed_by_zones.items():
        yield ", ".join(map(code, listed)), ", ".join(sorted(zones))


def _prices() -> list[tuple[str, ...]]:
    """The lists that prices are from."""
    lists = Counter((each.region, each.capacity, each.read, each.source) for each in BUILT_IN.prices)
    return [
        (code(region), code(capacity), str(count), str(read), f"<{source}>")
        for (region, capacity, read, source), count in lists.items()
        if capacity is not Capacity.RESERVATION
    ]
