"""What a node reserves for itself, by provider, and what remains for pods.

Does not include DaemonSets: they are pods, and depend on what is installed.
"""

from typing import Final

from muster.model.providers import Provider
from muster.model.quantities import GIB, MIB, Bytes, Millicores

# Both clouds keep 100 MiB back for the kubelet's hard eviction threshold.
_EVICTION: Final = 100 * MIB
# Of an m6i.large or g4dn.xlarge, the smallest in the table (amazon-eks-ami, eni-max-pods.txt).
_FEWEST_PODS: Final = 29


def left_of_cpu(provider: Provider, cpu: Millicores) -> Millicores:
    """Nothing is kept on the local cluster: it sets a node's allocatable to the figures of the table."""
    return cpu if provider is Provider.EXISTING else Millicores(cpu - _reserved_cpu(cpu))


def left_of_memory(provider: Provider, *, cpu: Millicores, memory: Bytes) -> Bytes:
    if provider is Provider.EXISTING:
        return memory
    reserved = _gke_memory(memory) if provider is Provider.GKE else _eks_memory(cpu)
    return Bytes(max(memory - reserved - _EVICTION, 0))


def most_of_memory(provider: Provider, *, cpu: Millicores, memory: Bytes) -> Bytes:
    """An upper bound of what is left for pods: more than `left_of_memory` where that is an estimate."""
    if provider is not Provider.EKS:
        return left_of_memory(provider, cpu=cpu, memory=memory)
    return Bytes(max(memory - _eks_reserved(_FEWEST_PODS) - _EVICTION, 0))


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
