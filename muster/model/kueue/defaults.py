"""What Kueue's API says of itself where a manifest of ours says nothing.

Decides that nothing is defaulted unnoticed: these are all the values that the CRDs of Kueue 0.19.2 fill into
what is rendered. A test compares them with what a real API server gives back. All of them are what the model
means by saying nothing.
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
