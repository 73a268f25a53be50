"""The machine types that pools are made of: vCPU, memory, GPUs, and what a pod may use of them.

Decides the table and, per provider, how much of a machine is left after the node's own reservation: quotas
of CPU and memory derive from it. Leaves which capacity kind may buy a machine to pools.py.
"""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from model.clusters import Provider
from model.quantities import GIB, MIB, Bytes, Millicores


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine type. `gpu_counts` holds the GPU counts it can carry: several where GPUs are attached
    (GKE's n1).

    `allocatable_cpu` and `allocatable_memory` are what pods can request on one such node.
    """

    name: str
    provider: Provider
    cpu: Millicores
    memory: Bytes
    accelerator: str | None
    gpu_counts: tuple[int, ...]

    @property
    def allocatable_cpu(self) -> Millicores:
        """Millicores left for pods. The local plane sets a node's allocatable to the figures of the table."""
        if self.provider is Provider.EXISTING:
            return self.cpu
        return Millicores(self.cpu - _reserved_cpu(self.cpu))

    @property
    def allocatable_memory(self) -> Bytes:
        """Bytes left for pods."""
        if self.provider is Provider.EXISTING:
            return self.memory
        reserved = _gke_memory(self.memory) if self.provider is Provider.GKE else _eks_memory(self.cpu)
        return Bytes(max(self.memory - reserved - _EVICTION, 0))


# Both clouds keep 100 MiB back for the kubelet's hard eviction threshold.
_EVICTION: Final = 100 * MIB


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
    max_pods = 110 if cpu < 30_000 else 250
    return (255 + 11 * max_pods) * MIB


def _banded(total: int, bands: tuple[tuple[int, int], ...]) -> int:
    reserved, left = 0, total
    for width, share in bands:
        taken = min(left, width)
        reserved, left = reserved + taken * share // 10_000, left - taken
    return reserved


# name, vCPU, memory in GiB, accelerator, GPU counts.
_Row = tuple[str, int, int, str | None, tuple[int, ...]]

# https://cloud.google.com/compute/docs/general-purpose-machines, .../accelerator-optimized-machines and
# .../gpus (Google's "GB" of memory are GiB). T4s are attached to n1 machines, 1, 2 or 4 of them.
_GKE: Final[tuple[_Row, ...]] = (
    ("e2-standard-2", 2, 8, None, ()),
    ("e2-standard-4", 4, 16, None, ()),
    ("e2-standard-8", 8, 32, None, ()),
    ("e2-standard-16", 16, 64, None, ()),
    ("e2-standard-32", 32, 128, None, ()),
    ("n2-standard-4", 4, 16, None, ()),
    ("n2-standard-8", 8, 32, None, ()),
    ("n2-standard-16", 16, 64, None, ()),
    ("n2-standard-32", 32, 128, None, ()),
    ("n1-standard-4", 4, 15, "nvidia-tesla-t4", (1, 2, 4)),
    ("n1-standard-8", 8, 30, "nvidia-tesla-t4", (1, 2, 4)),
    ("n1-standard-16", 16, 60, "nvidia-tesla-t4", (1, 2, 4)),
    ("n1-standard-32", 32, 120, "nvidia-tesla-t4", (1, 2, 4)),
    ("g2-standard-4", 4, 16, "nvidia-l4", (1,)),
    ("g2-standard-8", 8, 32, "nvidia-l4", (1,)),
    ("g2-standard-12", 12, 48, "nvidia-l4", (1,)),
    ("g2-standard-16", 16, 64, "nvidia-l4", (1,)),
    ("g2-standard-24", 24, 96, "nvidia-l4", (2,)),
    ("g2-standard-32", 32, 128, "nvidia-l4", (1,)),
    ("g2-standard-48", 48, 192, "nvidia-l4", (4,)),
    ("g2-standard-96", 96, 384, "nvidia-l4", (8,)),
    ("a2-highgpu-1g", 12, 85, "nvidia-tesla-a100", (1,)),
    ("a2-highgpu-2g", 24, 170, "nvidia-tesla-a100", (2,)),
    ("a2-highgpu-4g", 48, 340, "nvidia-tesla-a100", (4,)),
    ("a2-highgpu-8g", 96, 680, "nvidia-tesla-a100", (8,)),
    ("a2-megagpu-16g", 96, 1360, "nvidia-tesla-a100", (16,)),
    ("a2-ultragpu-1g", 12, 170, "nvidia-a100-80gb", (1,)),
    ("a2-ultragpu-2g", 24, 340, "nvidia-a100-80gb", (2,)),
    ("a2-ultragpu-4g", 48, 680, "nvidia-a100-80gb", (4,)),
    ("a2-ultragpu-8g", 96, 1360, "nvidia-a100-80gb", (8,)),
    ("a3-highgpu-1g", 26, 234, "nvidia-h100-80gb", (1,)),
    ("a3-highgpu-2g", 52, 468, "nvidia-h100-80gb", (2,)),
    ("a3-highgpu-4g", 104, 936, "nvidia-h100-80gb", (4,)),
    ("a3-highgpu-8g", 208, 1872, "nvidia-h100-80gb", (8,)),
    ("a3-megagpu-8g", 208, 1872, "nvidia-h100-mega-80gb", (8,)),
    ("a3-ultragpu-8g", 224, 2952, "nvidia-h200-141gb", (8,)),
    ("a4-highgpu-8g", 224, 3968, "nvidia-b200", (8,)),
)

# https://aws.amazon.com/ec2/instance-types/ (m6i, g4, g5, g6, p4, p5, p6)
_EKS: Final[tuple[_Row, ...]] = (
    ("m6i.large", 2, 8, None, ()),
    ("m6i.xlarge", 4, 16, None, ()),
    ("m6i.2xlarge", 8, 32, None, ()),
    ("m6i.4xlarge", 16, 64, None, ()),
    ("m6i.8xlarge", 32, 128, None, ()),
    ("g4dn.xlarge", 4, 16, "nvidia-tesla-t4", (1,)),
    ("g4dn.2xlarge", 8, 32, "nvidia-tesla-t4", (1,)),
    ("g4dn.4xlarge", 16, 64, "nvidia-tesla-t4", (1,)),
    ("g4dn.8xlarge", 32, 128, "nvidia-tesla-t4", (1,)),
    ("g4dn.12xlarge", 48, 192, "nvidia-tesla-t4", (4,)),
    ("g4dn.16xlarge", 64, 256, "nvidia-tesla-t4", (1,)),
    ("g4dn.metal", 96, 384, "nvidia-tesla-t4", (8,)),
    ("g5.xlarge", 4, 16, "nvidia-a10g", (1,)),
    ("g5.2xlarge", 8, 32, "nvidia-a10g", (1,)),
    ("g5.4xlarge", 16, 64, "nvidia-a10g", (1,)),
    ("g5.8xlarge", 32, 128, "nvidia-a10g", (1,)),
    ("g5.12xlarge", 48, 192, "nvidia-a10g", (4,)),
    ("g5.16xlarge", 64, 256, "nvidia-a10g", (1,)),
    ("g5.24xlarge", 96, 384, "nvidia-a10g", (4,)),
    ("g5.48xlarge", 192, 768, "nvidia-a10g", (8,)),
    ("g6.xlarge", 4, 16, "nvidia-l4", (1,)),
    ("g6.2xlarge", 8, 32, "nvidia-l4", (1,)),
    ("g6.4xlarge", 16, 64, "nvidia-l4", (1,)),
    ("g6.8xlarge", 32, 128, "nvidia-l4", (1,)),
    ("g6.12xlarge", 48, 192, "nvidia-l4", (4,)),
    ("g6.16xlarge", 64, 256, "nvidia-l4", (1,)),
    ("g6.24xlarge", 96, 384, "nvidia-l4", (4,)),
    ("g6.48xlarge", 192, 768, "nvidia-l4", (8,)),
    ("p4d.24xlarge", 96, 1152, "nvidia-tesla-a100", (8,)),
    ("p4de.24xlarge", 96, 1152, "nvidia-a100-80gb", (8,)),
    ("p5.4xlarge", 16, 256, "nvidia-h100-80gb", (1,)),
    ("p5.48xlarge", 192, 2048, "nvidia-h100-80gb", (8,)),
    ("p5e.48xlarge", 192, 2048, "nvidia-h200-141gb", (8,)),
    ("p5en.48xlarge", 192, 2048, "nvidia-h200-141gb", (8,)),
    ("p6-b200.48xlarge", 192, 2048, "nvidia-b200", (8,)),
)

# The nodes of the local plane. Their sizes are chosen so that everything's requests fit 2 cores and 8 GiB.
_LOCAL: Final[tuple[_Row, ...]] = (
    ("local-cpu", 2, 3, None, ()),
    ("local-l4", 1, 2, "nvidia-l4", (1,)),
    ("local-h100", 1, 2, "nvidia-h100-80gb", (1,)),
)


def _machines(provider: Provider, rows: tuple[_Row, ...]) -> dict[str, Machine]:
    return {
        name: Machine(name, provider, Millicores(cpu * 1000), Bytes(gib * GIB), accelerator, counts)
        for name, cpu, gib, accelerator, counts in rows
    }


MACHINES: Final = MappingProxyType(
    _machines(Provider.GKE, _GKE) | _machines(Provider.EKS, _EKS) | _machines(Provider.EXISTING, _LOCAL)
)


def machines_of(provider: Provider) -> dict[str, Machine]:
    """The machines that a pool of this provider may name. An existing cluster may stand on any cloud's
    machines.
    """
    if provider is Provider.EXISTING:
        return dict(MACHINES)
    return {name: machine for name, machine in MACHINES.items() if machine.provider is provider}
