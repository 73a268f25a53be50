"""Compares pools: their order, and what their nodes cost.

Costs are only compared where both sides have a price in one currency. A cost is a range: from the nodes that
always exist to all nodes.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from types import MappingProxyType
from typing import Final

from muster.artifacts.resolved import versions_of
from muster.model.pools import Pool
from muster.model.prices import Price, PriceTable
from muster.model.stack import Stack
from muster.model.transitions import Judgement, judge
from muster.preview.compare.settings import differing
from muster.preview.plan import GRAVE, Resource

# Compares the versions that two stacks install, with the verdict on each step.


def version_changes(base: Stack | None, head: Stack | None) -> tuple[Judgement, ...]:
    """Of components that both sides have. A version that only one side names is not compared: for a cluster
    it is the cloud that chooses the other one.
    """
    if base is None or head is None:
        return ()
    steps = (
        judge(component, before, after)
        for component, before, after in differing(versions_of(base), versions_of(head))
        if before is not None and after is not None
    )
    return tuple(step for step in steps if step is not None)


@dataclass(frozen=True, slots=True)
class PoolChange:
    """A pool before and after. None where the pool does not exist."""

    name: str
    before: Pool | None
    after: Pool | None


@dataclass(frozen=True, slots=True)
class HourlyCost:
    """What an hour of one side of a pool costs. `price` is None where the pool does not exist. `is_old`: the
    price was read more than 90 days ago.
    """

    least: Decimal
    most: Decimal
    price: Price | None
    is_old: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolCost:
    """A changed pool and its costs. A cost is None where there is no price."""

    pool: PoolChange
    before: HourlyCost | None
    after: HourlyCost | None

    @property
    def currency(self) -> str | None:
        """The one currency of both sides; None where a price is missing or the currencies differ."""
        if self.before is None or self.after is None:
            return None
        found = _currencies((self.before, self.after))
        return found.pop() if len(found) == 1 else None


@dataclass(frozen=True, slots=True)
class TotalCost:
    """The most that an hour of all changed pools costs. `unpriced` names the pools that are not included."""

    currency: str
    before: Decimal
    after: Decimal
    unpriced: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PoolOrder:
    """The pools of both sides in the order in which Kueue tries them, where that order changes."""

    before: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def swaps(self) -> dict[str, tuple[str, ...]]:
        """Pool -> those that it precedes now and followed before. A pool of one side is left out."""
        places = {name: place for place, name in enumerate(self.before)}
        kept = [name for name in self.after if name in places]
        overtaken = {
            name: tuple(other for other in kept[place:] if places[other] < places[name])
            for place, name in enumerate(kept)
        }
        return {name: others for name, others in overtaken.items() if others}


def pool_order(base: Stack | None, head: Stack | None) -> PoolOrder | None:
    """None where no two pools change places, or a side does not try them in an order."""
    if base is None or head is None:
        return None
    if not (base.scheduler.traits.has_flavors and head.scheduler.traits.has_flavors):
        return None
    before, after = (tuple(pool.name for pool in side.pools) for side in (base, head))
    order = PoolOrder(before, after)
    return order if order.swaps else None


def pool_changes(before: Mapping[str, Pool], after: Mapping[str, Pool]) -> tuple[PoolChange, ...]:
    return tuple(PoolChange(*each) for each in differing(before, after))


def pool_costs(
    pools: Iterable[PoolChange], base: Stack | None, head: Stack | None, prices: PriceTable, *, day: date
) -> tuple[PoolCost, ...]:
    """The cost of each changed pool on both sides. `day`: today."""
    return tuple(
        PoolCost(
            pool=each,
            before=hourly_cost(each.before, base, prices, day=day),
            after=hourly_cost(each.after, head, prices, day=day),
        )
        for each in pools
    )


def hourly_cost(
    pool: Pool | None, stack: Stack | None, prices: PriceTable, *, day: date
) -> HourlyCost | None:
    """The cost of one side; None without a price. A pool that does not exist costs nothing."""
    if pool is None or stack is None:
        return HourlyCost(Decimal(0), Decimal(0), None)
    price = prices.of(pool, stack.cluster)
    if price is None:
        return None
    least, most = pool.min_nodes * price.hourly, pool.max_nodes * price.hourly
    return HourlyCost(least, most, price, price.is_old(day))


def total_cost(costs: Iterable[PoolCost]) -> TotalCost | None:
    """None where nothing is priced, or where the prices are in several currencies, which cannot be added."""
    listed = list(costs)
    priced = [(each.before, each.after) for each in listed if each.before and each.after]
    found = _currencies(side for pair in priced for side in pair)
    if len(found) != 1:
        return None
    unpriced = tuple(sorted(each.pool.name for each in listed if each.before is None or each.after is None))
    before, after = (sum((pair[side].most for pair in priced), Decimal(0)) for side in (0, 1))
    return TotalCost(found.pop(), before, after, unpriced)


def _currencies(sides: Iterable[HourlyCost]) -> set[str]:
    return {side.price.currency for side in sides if side.price is not None}


# Whose nodes a plan takes away, and what happens to the work that runs on them.

_EKS: Final = "aws:eks/nodeGroup:NodeGroup"
_GKE: Final = "gcp:container/nodePool:NodePool"
# Fields whose change in place makes new nodes, each by itself or the first part of its path:
# https://docs.aws.amazon.com/eks/latest/userguide/update-managed-node-group.html and
# https://cloud.google.com/kubernetes-engine/docs/concepts/managing-clusters#manual-changes-that-respect
_ROLLS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        _EKS: ("launchTemplate", "releaseVersion", "version"),
        _GKE: (
            "version",
            *(f"nodeConfig.{each}" for each in ("diskSizeGb", "diskType", "imageType", "machineType")),
            *(f"nodeConfig.{each}" for each in ("kubeletConfig", "linuxNodeConfig", "gvnic", "gcfsConfig")),
        ),
    }
)
_GONE: Final = "all of its nodes go, with the work on them"
_DRAINED: Final[Mapping[str, str]] = MappingProxyType(
    {
        _EKS: "its nodes are drained and replaced; AWS waits 15 minutes for running work and then fails",
        _GKE: "its nodes are drained and replaced; GKE waits an hour for running work and then evicts it",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LostNodes:
    """A pool or group of nodes, what makes it lose them, and what becomes of the work."""

    name: str
    because: tuple[str, ...]
    effect: str

    @property
    def is_rolled(self) -> bool:
        """Whether the pool itself stays."""
        return self.effect != _GONE


def lost_nodes(resources: Iterable[Resource]) -> Iterator[LostNodes]:
    """Pools that a plan replaces, deletes, or changes in a way that makes new nodes."""
    for each in resources:
        if each.type not in _ROLLS:
            continue
        if each.verb in GRAVE:
            yield LostNodes(name=each.name, because=each.replaced_for, effect=_GONE)
            continue
        rolls = tuple(field for field in each.fields if _is_under(field, _ROLLS[each.type]))
        if each.verb == "updated" and rolls:
            yield LostNodes(name=each.name, because=rolls, effect=_DRAINED[each.type])


def _is_under(field: str, keys: Iterable[str]) -> bool:
    return any(field == key or field.startswith((f"{key}.", f"{key}[")) for key in keys)
