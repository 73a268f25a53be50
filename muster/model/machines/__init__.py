"""The machine types of pools: tables of the clouds' machines (*.csv, *.toml), with their sources.

    MACHINES               name -> Machine
    machines_of(provider)  those that a pool of this provider may name
    similar_machines(...)  those that a mistyped name may mean
    own_machine(...)       a node that its owner describes
    cloud_machine(...)     a cloud's machine that no table has
    chips_of(topology)     the TPU chips of a slice

A machine is what it is made of, what a pod may use of it, and in which ways it can be bought. Sizes of EC2
and Google are from eks.csv and gke.csv, how they are sold from eks.toml and gke.toml, whose heads name the
sources. An unknown key in them is a TypeError when they are first read.
"""

import csv
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from enum import StrEnum
from functools import cache
from importlib.resources import files
from math import prod
from types import MappingProxyType
from typing import Any, Final

from muster.model.accelerators import Accelerator
from muster.model.capacity import LEGAL_CAPACITY, Capacity
from muster.model.nearest import meant
from muster.model.quantities import GIB, MIB, Bytes, Millicores, format_cpu, format_memory
from muster.model.regions import LazyTable, Provider

# What a node reserves for itself, by provider, and what remains for pods.
# Does not include DaemonSets: they are pods, and depend on what is installed.

# Both clouds keep 100 MiB back for the kubelet's hard eviction threshold.
_EVICTION: Final = 100 * MIB
# Of an m6i.large or g4dn.xlarge, the smallest in the table (amazon-eks-ami, eni-max-pods.txt).
_FEWEST_PODS: Final = 29

# Of one local disk of the machines in gke.csv.
# Source: github.com/kubernetes/autoscaler cluster-autoscaler/cloudprovider/gce/templates.go
# (LocalSSDDiskSizeInGiB), read 2026-11-30
_GOOGLE_DISK: Final = 375 * GIB


def _reserved_cpu(cpu: Millicores) -> int:
    """6 % of the first core, 1 % of the second, 0.5 % of the next two, 0.25 % of the rest, in millicores.

    https://cloud.google.com/kubernetes-engine/docs/concepts/plan-node-sizes; EKS's nodeadm computes the
    same (github.com/awslabs/amazon-eks-ami, nodeadm/internal/kubelet/config.go).
    """
    bands = ((1000, 600), (1000, 100), (2000, 50), (cpu, 25))  # width in millicores, share in parts of 10,000
    return _banded(cpu, bands)


def _gke_memory(memory: Bytes) -> int:
    """25 % of the first 4 GiB, 20 % of the next 4, 10 % of the next 8, 6 % of the next 112, 2 % of the
    rest.

    https://cloud.google.com/kubernetes-engine/docs/concepts/plan-node-sizes
    """
    bands = ((4 * GIB, 2500), (4 * GIB, 2000), (8 * GIB, 1000), (112 * GIB, 600), (memory, 200))
    return _banded(memory, bands)


def _eks_memory(cpu: Millicores) -> int:
    """255 MiB and 11 MiB for each pod that the node may hold.

    The formula is nodeadm's. The pod count comes from the instance's network interfaces; EKS recommends at
    most 110 pods under 30 vCPU and 250 above, which is used here for every type: it reserves rather too
    much than too little.
    """
    return _eks_reserved(110 if cpu < 30_000 else 250)


def _eks_reserved(max_pods: int) -> int:
    return (255 + 11 * max_pods) * MIB


def _banded(total: int, bands: tuple[tuple[int, int], ...]) -> int:
    reserved, left = 0, total
    for width, share in bands:
        taken = min(left, width)
        reserved, left = reserved + taken * share // 10_000, left - taken
    return reserved


# Networks between the GPUs of several machines, which a job uses only with further network cards and with a
# plugin for NCCL. Without them it talks over the machine's first card.
# Which machine has which: https://cloud.google.com/compute/docs/gpus/gpu-network-bandwidth


class Fabric(StrEnum):
    """Google's names."""

    TCPX = "GPUDirect-TCPX"
    TCPXO = "GPUDirect-TCPXO"
    RDMA = "GPUDirect RDMA"


# Network cards besides the first one, each in a network of its own. With RDMA the first of them is no GPU's.
FURTHER_NETWORKS: Final = MappingProxyType({Fabric.TCPX: 4, Fabric.TCPXO: 8, Fabric.RDMA: 9})
# What a cluster has to have for them.
_TCPX_PAGE: Final = "https://cloud.google.com/kubernetes-engine/docs/how-to/gpu-bandwidth-gpudirect-tcpx"
_RDMA_PAGE: Final = "https://cloud.google.com/ai-hypercomputer/docs/create/gke-ai-hypercompute-custom"
PAGES: Final = MappingProxyType({Fabric.TCPX: _TCPX_PAGE, Fabric.TCPXO: _TCPX_PAGE, Fabric.RDMA: _RDMA_PAGE})


AMD64: Final = "amd64"
ARM64: Final = "arm64"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """`gpu_counts` holds the GPU counts it can carry: several where GPUs are attached (GKE's n1).

    `bought`: the capacity types in which the cloud sells it; `unsourced`: those that no page of the cloud
    confirms or denies.

    `local_disks`: NVMe disks of its own; on EC2, where nothing counts them, 1 for any number.
    `local_storage`: the bytes of all of them; None where there are none, or no source gives their size.
    `efa`: EFA interfaces that it can have (EC2). `fabric`: its network between GPUs (GKE). `compact`: it
    supports compact placement. `disk`: the kind of boot disk (GKE); None: GKE's default for the machine.

    `topologies`: of its TPUs, the one of a single node first; () for all other machines. `workload_policy`:
    a slice of several nodes needs a workload policy of its topology (GKE). `architecture`: of its CPU, as
    Kubernetes names it.

    `is_own`: the stack describes it. `gpu`: its GPU as described, in place of the table's. `labels`: what its
    nodes carry besides the pool's label.

    `allocatable_cpu` and `allocatable_memory` are what pods can request on one such node.
    """

    name: str
    provider: Provider
    cpu: Millicores
    memory: Bytes
    accelerator: str | None
    gpu_counts: tuple[int, ...]
    bought: frozenset[Capacity]
    unsourced: frozenset[Capacity] = frozenset()
    local_disks: int = 0
    local_storage: Bytes | None = None
    efa: int = 0
    fabric: Fabric | None = None
    compact: bool = False
    disk: str | None = None
    topologies: tuple[str, ...] = ()
    workload_policy: bool = False
    architecture: str = AMD64
    is_own: bool = False
    gpu: Accelerator | None = None
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), hash=False)

    @property
    def is_tpu(self) -> bool:
        return bool(self.topologies)

    @property
    def description(self) -> str:
        """Its name, with the figures where the stack gives them to a machine type."""
        if not self.is_own or self.provider is Provider.EXISTING:
            return self.name
        gpus = f", {sum(self.gpu_counts)} {self.accelerator}" if self.accelerator else ""
        return f"{self.name} ({format_cpu(self.cpu)} CPU, {format_memory(self.memory)}{gpus})"

    @property
    def allocatable_cpu(self) -> Millicores:
        """Millicores left for pods. The local cluster sets a node's allocatable to the table's figures."""
        return Millicores(self.cpu - (0 if self.provider is Provider.EXISTING else _reserved_cpu(self.cpu)))

    @property
    def allocatable_memory(self) -> Bytes:
        """Bytes left for pods."""
        if self.provider is Provider.EXISTING:
            return self.memory
        is_gke = self.provider is Provider.GKE
        return self._less(_gke_memory(self.memory) if is_gke else _eks_memory(self.cpu))

    @property
    def most_memory(self) -> Bytes:
        """Bytes above which no pod fits the node, however few pods it may hold."""
        is_eks = self.provider is Provider.EKS
        return self._less(_eks_reserved(_FEWEST_PODS)) if is_eks else self.allocatable_memory

    def _less(self, reserved: int) -> Bytes:
        return Bytes(max(self.memory - reserved - _EVICTION, 0))

    @property
    def efa_by_default(self) -> bool:
        """A machine with several network cards needs EFA for most of its bandwidth."""
        return self.efa > 1


# Machines that a stack describes: nodes of a data centre, or a cloud's machine that no table has.

MOST_GPUS: Final = 64


def cloud_machine(
    name: str,
    provider: Provider,
    *,
    cpu: Millicores,
    memory: Bytes,
    gpus: int,
    gpu: Accelerator | None,
    local_disks: int,
    efa: int,
    architecture: str,
) -> Machine:
    """A machine type of a cloud with the figures that the stack gives. `cpu` and `memory` are the machine's:
    what its node keeps for itself comes off them as for a machine of the table. How it is sold is not judged.
    """
    return replace(
        _described(name, provider, cpu, memory, gpus, gpu),
        local_disks=local_disks,
        efa=efa,
        compact=True,
        architecture=architecture,
    )


def own_machine(
    *, cpu: Millicores, memory: Bytes, gpus: int, gpu: Accelerator | None, labels: Mapping[str, str]
) -> Machine:
    """A node of an existing cluster. `cpu` and `memory` are what pods can request on it. `gpu` is set exactly
    where `gpus` is not 0.

    Its name is the description that reports show in place of a machine type.
    """
    size = f"{format_cpu(cpu)} CPU, {format_memory(memory)}"
    name = f"{gpus} {gpu.name}, {size}" if gpu else size
    return replace(_described(name, Provider.EXISTING, cpu, memory, gpus, gpu), labels=labels)


def _described(
    name: str, provider: Provider, cpu: Millicores, memory: Bytes, gpus: int, gpu: Accelerator | None
) -> Machine:
    return Machine(
        name=name,
        provider=provider,
        cpu=cpu,
        memory=memory,
        accelerator=gpu.name if gpu else None,
        gpu_counts=(gpus,) if gpu else (),
        bought=frozenset(LEGAL_CAPACITY[provider]),
        is_own=True,
        gpu=gpu,
    )


# The local cluster's nodes. Their sizes are chosen so that everything's requests fit 2 cores and 8 GiB.

# name, vCPU, memory in GiB, accelerator.
_ROWS: Final = (
    ("local-cpu", 2, 3, None),
    ("local-l4", 1, 2, "nvidia-l4"),
    ("local-h100", 1, 2, "nvidia-h100-80gb"),
)


def local_machines() -> Iterator[Machine]:
    for name, cpu, gib, accelerator in _ROWS:
        yield Machine(
            name=name,
            provider=Provider.EXISTING,
            cpu=Millicores(cpu * 1000),
            memory=Bytes(gib * GIB),
            accelerator=accelerator,
            gpu_counts=(1,) if accelerator else (),
            bought=frozenset(LEGAL_CAPACITY[Provider.EXISTING]),
        )


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
            local_storage=Bytes(int(row["local_disks"]) * _GOOGLE_DISK) or None,
            compact=series.compact,
            fabric=Fabric(series.fabric) if series.fabric else None,
            disk=series.disk,
            architecture=series.architecture,
        )


def eks_machines() -> Iterator[Machine]:
    for row in _rows("eks.csv"):
        series = _OF_EKS.get(row["machine"].partition(".")[0], _Series())
        count, gib = int(row["accelerators"]), row["local_gib"]
        yield Machine(
            name=row["machine"],
            provider=Provider.EKS,
            cpu=Millicores(int(row["vcpus"]) * 1000),
            memory=Bytes(int(row["memory_mib"]) * MIB),
            accelerator=series.accelerator,
            gpu_counts=(count,) if count else (),
            bought=series.ways,
            unsourced=frozenset(map(Capacity, series.unsourced)),
            local_disks=0 if gib == "0" else 1,
            local_storage=None if gib in ("0", "?") else Bytes(int(gib) * GIB),
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


def _machines() -> dict[str, Machine]:
    every = (*gke_machines(), *tpu_machines(), *eks_machines(), *local_machines())
    return {machine.name: machine for machine in every}


MACHINES: Final = LazyTable(_machines)


def machines_of(provider: Provider) -> dict[str, Machine]:
    """An existing cluster may use the machines of any cloud."""
    if provider is Provider.EXISTING:
        return dict(MACHINES)
    return {name: machine for name, machine in MACHINES.items() if machine.provider is provider}


def similar_machines(word: str, known: Mapping[str, Machine]) -> list[str]:
    """The machines that a mistyped name may mean: those of its own series where they all carry the same
    accelerator, otherwise the CPU machines that are nearly written so. Another series is other hardware,
    however alike its letters are.
    """
    mark = "." if "." in word else "-"
    series = word.partition(mark)[0] if mark == "." else word.rpartition(mark)[0]
    for start in (series, word.partition(mark)[0]):
        same = [name for name in known if start and name.startswith(f"{start}{mark}")]
        if same and len({known[name].accelerator for name in same}) == 1:
            return same
    plain = [name for name, machine in known.items() if machine.accelerator is None]
    return plain if meant(word, plain, noun="machine")[0] is not None else []
