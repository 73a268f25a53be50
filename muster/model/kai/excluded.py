"""Fields of KAI's API that a stack cannot have, and why. A test compares the list with KAI's schemas.

A path names the topmost field that is left out; everything below it is left out, too.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from muster.model.kai.shard import PASSWORD

EXCLUDED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "PodGroup.spec": "is one gang's, not a stack's: KAI's grouper writes it from the labels of the work.",
        "SchedulingShard.spec.usageDBConfig.connectionString": f"{PASSWORD[0]}: {PASSWORD[1]}.",
    }
)
