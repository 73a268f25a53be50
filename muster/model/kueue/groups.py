"""Resource groups in addition to the pools': quotas of resources that no pool has, such as licences.

The pools of a queue share one group, because a GPU pod needs its CPU from the node that has its GPU
(render/kueue/groups.py); these come after it, each over flavors of its own (`muster:kueue.flavors`).
"""

from dataclasses import dataclass

from muster.model.quantities import Quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """Of one resource in one flavor. A limit that is None bounds nothing."""

    name: str
    nominal: Quantity
    borrowing: Quantity | None = None
    lending: Quantity | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorQuota:
    """What there is of one flavor."""

    name: str
    resources: tuple[Quota, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Kueue gives a pod one flavor of a group for all of the group's resources."""

    covered_resources: tuple[str, ...]
    flavors: tuple[FlavorQuota, ...]
