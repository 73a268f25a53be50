"""Fields and kinds of Kueue's API that a stack cannot set, each with its reason.

A test walks the pinned CRDs and fails on any field of a spec that is neither rendered by some stack nor
listed here.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_ONE_CLUSTER: Final = "a stack is one cluster: Muster sends no work to others"

# A path excludes everything below it.
EXCLUDED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "MultiKueueCluster.spec": _ONE_CLUSTER,
        "MultiKueueConfig.spec": _ONE_CLUSTER,
        "Workload.spec": "Kueue makes Workloads from jobs; tenants do not write them",
        "ResourceFlavor.spec.nodeTaints[].timeAdded": "the kubelet writes it; on a flavor it means nothing",
    }
)
