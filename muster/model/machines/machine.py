"""One machine type: what it is made of, what a pod may use of it, and in which ways it can be bought."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from muster.model.accelerators import Accelerator
from muster.model.capacity import LEGAL_CAPACITY, Capacity
from muster.model.quantities import GIB, MIB, Bytes, Millicores, format_cpu, format_memory
from muster.model.regions import Provider

# What a node reserves for itself, by provider, and what remains for pods.
# Does not include DaemonSets: they are pods, and depend on what is installed.

# Both clouds keep 100 MiB back for the kubelet's hard eviction threshold.
_EVICTION: Final = 100 * MIB
# Of an m6i.large or g4dn.xlarge, the smallest in the table (amazon-eks-ami, eni-max-pods.txt).
_FEWEST_PODS: Final = 29


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

    `local_disks`: NVMe disks of its own; on EC2, where nothing counts them, 1 for any number. `efa`: EFA
    interfaces that it can have (EC2). `fabric`: its network between GPUs (GKE). `compact`: it supports
    compact placement. `disk`: the kind of boot disk (GKE); None: GKE's default for the machine.

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
