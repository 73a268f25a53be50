"""Priorities for KAI.

Responsible for which classes a KAI stack has: the stack's own, and those that KAI uses for work without a
class. Not responsible for manifests (render/kai).
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from muster.model.priorities import Priority

# docs/priority of KAI 0.17.0: work of 100 or more stays within its queue's quota and is never evicted for
# others.
NON_PREEMPTIBLE: Final = 100
# Of work without a class that exists, where no class is the default of all (pkg/common/constants:
# DefaultPodGroupPriority).
DEFAULT_PRIORITY: Final = 50
OWN_CLASSES: Final[Mapping[str, int]] = MappingProxyType(
    {"inference": 125, "build": 100, "build-preemptible": 75, "train": 50}
)


def effective(named: Iterable[Priority]) -> list[Priority]:
    """The stack's priorities and those of KAI's own that it does not name, highest first."""
    said = list(named)
    taken = {priority.name for priority in said}
    own = [Priority(value, name) for name, value in OWN_CLASSES.items() if name not in taken]
    return sorted([*said, *own], reverse=True)


def is_preemptible(priority: Priority) -> bool:
    """Whether work of it may go over quota, and may then be evicted."""
    return priority.value < NON_PREEMPTIBLE
