"""The defaults that the CRDs of Kueue 0.19.2 fill into rendered manifests.

A test compares this list with the answer of a real API server, so that a new default is noticed. Each of
them is what the model means by an unset field.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

# Kind -> path of the field -> value. A path below a field that is not there fills nothing in.
DEFAULTED: Final[Mapping[str, Mapping[str, object]]] = MappingProxyType(
    {
        "ClusterQueue": MappingProxyType(
            {
                "spec.flavorFungibility.whenCanBorrow": "MayStopSearch",
                "spec.flavorFungibility.whenCanPreempt": "TryNextFlavor",
                "spec.preemption.borrowWithinCohort.policy": "Never",
                "spec.stopPolicy": "None",
            }
        ),
        "LocalQueue": MappingProxyType({"spec.stopPolicy": "None"}),
    }
)
