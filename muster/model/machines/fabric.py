"""Networks between the GPUs of several machines, which a job uses only with further network cards and with a
plugin for NCCL. Without them it talks over the machine's first card.

Which machine has which: https://cloud.google.com/compute/docs/gpus/gpu-network-bandwidth
"""

from enum import StrEnum
from types import MappingProxyType
from typing import Final


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
