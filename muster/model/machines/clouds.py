"""The machines of EC2 and Google: sizes from eks.csv and gke.csv, how they are sold from eks.toml and
gke.toml, whose heads name the sources. An unknown key in them is a TypeError at the first import.
"""

import csv
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final

from muster.model.capacity import Capacity
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


def _toml(name: str) -> dict[str, Any]:
    return tomllib.loads((files(__package__) / name).read_text(encoding="utf-8"))


def _rows(name: str) -> Iterator[dict[str, str]]:
    with (files(__package__) / name).open(encoding="utf-8") as table:
        yield from csv.DictReader(table)


_GKE: Final = _toml("gke.toml")
_EKS: Final = _toml("eks.toml")
_OF_GKE: Final = {start: _Series(**row) for start, row in _GKE["series"].items()}
_OF_EKS: Final = {family: _Series(**row) for family, row in _EKS["series"].items()}

SOURCES: Final[Mapping[Provider, tuple[str, ...]]] = MappingProxyType(
    {Provider.GKE: tuple(_GKE["sources"]), Provider.EKS: tuple(_EKS["sources"])}
)
ZONES_READ: Final[date] = _GKE["zones"]["read"]
ZONES_SOURCE: Final[str] = _GKE["zones"]["source"]


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
    """The zones of Google that sold the machine on `ZONES_READ`; empty where the table does not know it."""
    pairs = (part.split() for part in _gke_series(machine).zones.split(";") if part.strip())
    return frozenset(f"{region}-{letter}" for region, letters in pairs for letter in letters)


def _gke_series(machine: str) -> _Series:
    """The series of the longest beginning that fits."""
    start = max((start for start in _OF_GKE if machine.startswith(start)), key=len, default="")
    return _OF_GKE.get(start, _Series())
