"""The machines of EC2 and Google: sizes from eks.csv and gke.csv, how they are sold from eks.toml and
gke.toml, whose heads name the sources. An unknown key in them is a TypeError when they are first read.
"""

import csv
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from functools import cache
from importlib.resources import files
from typing import Any, Final

from muster.model.capacity import Capacity
from muster.model.lazy_table import LazyTable
from muster.model.machines.fabric import Fabric
from muster.model.machines.machine import Machine
from muster.model.providers import Provider
from muster.model.quantities import GIB, MIB, Bytes, Millicores

_FOR_CPUS: Final = (Capacity.ON_DEMAND, Capacity.SPOT, Capacity.RESERVATION)
_FOR_ACCELERATORS: Final = (*_FOR_CPUS, Capacity.QUEUED)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Series:
    """Machines that are sold alike."""

    compact: bool = True
    accelerator: str | None = None
    bought: tuple[str, ...] = ()
    unsourced: tuple[str, ...] = ()
    disk: str = "pd-balanced"
    fabric: str | None = None
    architecture: str = "amd64"
    zones: str = ""

    @property
    def ways(self) -> frozenset[Capacity]:
        return frozenset(map(Capacity, self.bought or (_FOR_ACCELERATORS if self.accelerator else _FOR_CPUS)))


@cache
def _toml(name: str) -> dict[str, Any]:
    return tomllib.loads((files(__package__) / name).read_text(encoding="utf-8"))


def _rows(name: str) -> Iterator[dict[str, str]]:
    with (files(__package__) / name).open(encoding="utf-8") as table:
        yield from csv.DictReader(table)


def _series(provider: Provider) -> LazyTable[_Series]:
    """How the machines are sold whose names begin alike."""
    return LazyTable(
        lambda: {start: _Series(**row) for start, row in _toml(f"{provider}.toml")["series"].items()}
    )


_OF_GKE: Final = _series(Provider.GKE)
_OF_EKS: Final = _series(Provider.EKS)


def sources(provider: Provider) -> tuple[str, ...]:
    """Where the sizes and the ways to buy of a cloud's machines were read."""
    return () if provider is Provider.EXISTING else tuple(_toml(f"{provider}.toml")["sources"])


def zones_read() -> tuple[date, str]:
    """When and where it was read which zones of Google sell which machine."""
    zones = _toml("gke.toml")["zones"]
    return zones["read"], zones["source"]


def gke_machines() -> Iterator[Machine]:
    for row in _rows("gke.csv"):
        series, counts = _gke_series(row["machine"]), tuple(map(int, row["accelerators"].split()))
        if not counts:
            # An N1 machine to which no GPU is attached.
            series = replace(series, accelerator=None, unsourced=())
        yield Machine(
            name=row["machine"],
            provider=Provider.GKE,
            cpu=Millicores(int(row["vcpus"]) * 1000),
            memory=Bytes(int(float(row["memory_gib"]) * GIB)),
            accelerator=series.accelerator,
            gpu_counts=counts,
            bought=_with_flex_start(series.ways),
            unsourced=_with_flex_start(frozenset(map(Capacity, series.unsourced))),
            local_disks=int(row["local_disks"]),
            compact=series.compact,
            fabric=Fabric(series.fabric) if series.fabric else None,
            disk=series.disk,
            architecture=series.architecture,
        )


def eks_machines() -> Iterator[Machine]:
    for row in _rows("eks.csv"):
        series = _OF_EKS.get(row["machine"].partition(".")[0], _Series())
        count = int(row["accelerators"])
        yield Machine(
            name=row["machine"],
            provider=Provider.EKS,
            cpu=Millicores(int(row["vcpus"]) * 1000),
            memory=Bytes(int(row["memory_mib"]) * MIB),
            accelerator=series.accelerator,
            gpu_counts=(count,) if count else (),
            bought=series.ways,
            unsourced=frozenset(map(Capacity, series.unsourced)),
            local_disks=int(row["local_disks"]),
            efa=int(row["efa"]),
            compact=series.compact,
            architecture=row["architecture"],
        )


def _with_flex_start(ways: frozenset[Capacity]) -> frozenset[Capacity]:
    """What can be queued for on Google is sold by flex-start without a queue as well."""
    return ways | {Capacity.FLEX_START} if Capacity.QUEUED in ways else ways


def zones_selling(machine: str) -> frozenset[str]:
    """The zones of Google that sold the machine (zones_read); empty where the table does not know it."""
    pairs = (part.split() for part in _gke_series(machine).zones.split(";") if part.strip())
    return frozenset(f"{region}-{letter}" for region, letters in pairs for letter in letters)


def _gke_series(machine: str) -> _Series:
    """The series of the longest beginning that fits."""
    start = max((start for start in _OF_GKE if machine.startswith(start)), key=len, default="")
    return _OF_GKE.get(start, _Series())
