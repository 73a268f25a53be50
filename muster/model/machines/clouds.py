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
from math import prod
from typing import Any, Final

from muster.model.capacity import Capacity
from muster.model.machines.machine import Fabric, Machine
from muster.model.quantities import GIB, MIB, Bytes, Millicores
from muster.model.regions import LazyTable, Provider

# GKE's machines with TPUs, and the slices that they are made in.
# Slices, and which machine makes them: https://docs.cloud.google.com/tpu/docs/v6e and, for v5e,
# https://cloud.google.com/tpu/docs/supported-versions; on GKE
# https://cloud.google.com/kubernetes-engine/docs/concepts/plan-tpus. CPU and memory are in Google's list of
# machine types, by https://github.com/Cyclenerd/google-cloud-pricing-cost-calculator at dac31281
# (tools/machinetypes.csv), read 2026-11-27.
# Unsourced, because no page of Google's was found that shows them: the slices of v5p and of tpu7x. The first
# topology of a machine is the one that a single node has.
# The zones are those of Google's page, which could be read up to Europe: they say where a slice is made, and
# not where none can be. AI zones (us-central1-ai1a) are no zones of a region's clusters unless a stack names
# them. Source: https://docs.cloud.google.com/tpu/docs/regions-zones, read 2026-11-27.

_FLEX: Final = frozenset({Capacity.QUEUED, Capacity.FLEX_START})
_SOLD: Final = _FLEX | {Capacity.ON_DEMAND, Capacity.SPOT, Capacity.RESERVATION}
_2D: Final = ("2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16")
_3D: Final = (
    *("2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8", "4x8x8"),
    *("8x8x8", "8x8x16", "8x16x16", "16x16x16", "16x16x24"),
)

# vCPU, memory in GiB, chips, topologies.
_Row = tuple[int, int, int, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _TpusSeries:
    accelerator: str
    rows: dict[str, _Row]
    zones: frozenset[str]
    disk: str = "pd-balanced"
    unsourced: frozenset[Capacity] = frozenset()
    workload_policy: bool = False


_V5E: Final = _TpusSeries(
    accelerator="tpu-v5-lite-podslice",
    zones=frozenset({"us-central1-a", "us-south1-a", "us-west1-c", "us-west4-a"}),
    unsourced=_FLEX,
    rows={
        "ct5lp-hightpu-1t": (24, 48, 1, ("1x1",)),
        "ct5lp-hightpu-4t": (112, 192, 4, _2D),
        "ct5lp-hightpu-8t": (224, 384, 8, ("2x4",)),
    },
)
_V5P: Final = _TpusSeries(
    accelerator="tpu-v5p-slice",
    zones=frozenset({"us-central1-a", "us-east5-a"}),
    unsourced=_FLEX,
    rows={"ct5p-hightpu-4t": (208, 448, 4, _3D)},
)
_V6E: Final = _TpusSeries(
    accelerator="tpu-v6e-slice",
    zones=frozenset({"us-central1-b", "us-east1-d", "us-east5-a", "us-east5-b", "europe-west4-a"}),
    # Flex-start alone: dws-flex-start/gke-tpu-v6e of cluster-toolkit's examples/gke-consumption-options. With
    # a queue as well: its dws-flex-start-queued-provisioning/gke-tpu-v6e shows it, and so does Google's
    # https://cloud.google.com/kubernetes-engine/docs/tutorials/ray-kueue-dws; to xpk the API said "Flex start
    # node pools don't support TPUs with queued provisioning" (github.com/AI-Hypercomputer/xpk pull request
    # 900), and xpk queues GPUs alone since. Source: cluster-toolkit at 1.95.0 and xpk, read 2026-11-27
    unsourced=frozenset({Capacity.QUEUED}),
    disk="hyperdisk-balanced",
    rows={
        "ct6e-standard-1t": (44, 176, 1, ("1x1",)),
        "ct6e-standard-4t": (180, 720, 4, _2D),
        "ct6e-standard-8t": (360, 1440, 8, ("2x4",)),
    },
)
_V7X: Final = _TpusSeries(
    accelerator="tpu7x",
    # Source: https://docs.cloud.google.com/kubernetes-engine/docs/concepts/tpu-ironwood, read 2026-11-27.
    workload_policy=True,
    zones=frozenset({"us-central1-c"}),
    # github.com/GoogleCloudPlatform/cluster-toolkit, examples/gke-tpu-7x
    disk="hyperdisk-balanced",
    # Its blueprint with queued provisioning and xpk, pull request 900, contradict each other.
    unsourced=frozenset({Capacity.QUEUED}),
    rows={"tpu7x-standard-1t": (56, 240, 1, ("1x1x1",)), "tpu7x-standard-4t": (224, 960, 4, _3D)},
)


_ALL: Final = (_V5E, _V5P, _V6E, _V7X)


def tpu_zones(machine: str) -> frozenset[str]:
    """Zones that sell the machine; there may be more. Empty where it has no TPUs."""
    return next((series.zones for series in _ALL if machine in series.rows), frozenset())


def tpu_machines() -> Iterator[Machine]:
    for series in _ALL:
        for name, (cpu, gib, chips, topologies) in series.rows.items():
            yield Machine(
                name=name,
                provider=Provider.GKE,
                cpu=Millicores(cpu * 1000),
                memory=Bytes(gib * GIB),
                accelerator=series.accelerator,
                gpu_counts=(chips,),
                bought=_SOLD,
                unsourced=series.unsourced,
                disk=series.disk,
                topologies=topologies,
                workload_policy=series.workload_policy,
            )


def chips_of(topology: str) -> int:
    """The chips of a slice: those of 4x4 are 16."""
    return prod(int(size) for size in topology.split("x"))


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
