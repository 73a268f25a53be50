"""Resource groups as Kueue's API has them.

The pools of a queue share one group, because a GPU pod needs its CPU from the node that has its GPU
(queue_groups.py). Groups of resources that no pool has, such as licences, come after it, each over
flavors of its own (`muster:kueue.flavors`). Groups that cover CPU, memory or GPUs take its place: the queue
has these groups and no other.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from muster.model import names
from muster.model.keys import declared
from muster.model.quantities import Quantity
from muster.model.section import Section

# What the pools' own group covers at least.
POOL_RESOURCES: Final = ("cpu", "memory", names.GPU_RESOURCE)


def _read_nominal(section: Section, key: str) -> Quantity | None:
    if not section.has(key):
        section.note(key, "is missing.", f"write `{key}:` and its value; 0 is allowed.")
    return section.quantity(key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """Of one resource in one flavor. A limit that is None bounds nothing."""

    name: str = declared("The resource.", example="example.com/license")
    nominal: Quantity = declared("What is guaranteed.", key="nominalQuota", example=10, read=_read_nominal)
    borrowing: Quantity | None = declared(
        "The most that is borrowed.", None, key="borrowingLimit", default_text="no limit", example=5
    )
    lending: Quantity | None = declared(
        "The most that is lent.", None, key="lendingLimit", default_text="no limit", example=5
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorQuota:
    """What there is of one flavor."""

    name: str = declared(
        "A ResourceFlavor: a pool's, or one of `muster:kueue.flavors`.", example="on-premises"
    )
    resources: tuple[Quota, ...] = declared("Its quotas.", ())

    @property
    def gpus(self) -> int:
        """The GPUs or TPU chips of the quota."""
        return sum(int(each.nominal.value) for each in self.resources if each.name in names.DEVICE_RESOURCES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Kueue gives a pod one flavor of a group for all of the group's resources."""

    covered_resources: tuple[str, ...] = declared(
        "The resources of the group.", (), example=["example.com/license"]
    )
    flavors: tuple[FlavorQuota, ...] = declared("The flavors of the group.", ())


def replaces_pools(groups: Iterable[Group]) -> bool:
    """Whether these groups take the place of the pools' own."""
    return any(name in POOL_RESOURCES for group in groups for name in group.covered_resources)
