"""What the queues hold, as running sums, and whether they have room.

A queue counts what its own pods take and what those of all queues below it take: pods with a node (KAI counts
them as allocated, a little later than we see them), released pods that have no node yet, and gangs that have
requested capacity or have begun to pass. A change or a question costs the depth of the tree, whatever the
number of pods. Plain data: gathering.py keeps it up with the caches.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Final

from muster.controller.kai.objects import Queue
from muster.controller.kai.queue_capacity import (
    QueueDemand,
    QueueUsage,
    Shortfall,
    Turn,
    exceeds,
    short_resource,
)
from muster.model.gangpolicy import OverQuota
from muster.model.pods import Amounts, add

_NOTHING: Final[Mapping[str, Amounts]] = MappingProxyType({})


@dataclass(slots=True)
class _Sums:
    """Of one queue and all below it: by whether the work is preemptible and whether its pods are bound."""

    amounts: dict[tuple[bool, bool], dict[str, Fraction]] = field(default_factory=dict)
    turns: dict[Hashable, tuple[QueueUsage, ...]] = field(default_factory=dict)
    """What gangs that gather take, by gang; it is in the sums as well."""

    def add(self, usage: QueueUsage, times: int) -> None:
        kind = usage.demand.is_preemptible, usage.is_bound
        add(self.amounts.setdefault(kind, {}), usage.demand.amounts, times=times)

    def total(self, *, is_bound: bool, preemptible_too: bool) -> dict[str, Fraction]:
        total: dict[str, Fraction] = {}
        for is_preemptible in (False, True) if preemptible_too else (False,):
            add(total, self.amounts.get((is_preemptible, is_bound), {}))
        return total


class Ledger:
    """The queues and what is taken of them, by holder: a pod or an attempt."""

    def __init__(
        self, queues: Iterable[Queue] = (), usage: Mapping[Hashable, Sequence[QueueUsage]] | None = None
    ) -> None:
        self._queues: dict[str, Queue] = {}
        self._children: defaultdict[str, set[str]] = defaultdict(set)
        self._usage: dict[Hashable, tuple[QueueUsage, ...]] = {}
        self._sums: defaultdict[str, _Sums] = defaultdict(_Sums)
        for queue in queues:
            self.put_queue(queue)
        for holder, held in (usage or {}).items():
            self.put(holder, held)

    def put_queue(self, queue: Queue) -> None:
        name, parent = queue.metadata.name, queue.spec.parent_queue
        before = self._queues.get(name)
        self._queues[name] = queue
        if before is None or before.spec.parent_queue != parent:
            self._children[before.spec.parent_queue if before else ""].discard(name)
            self._children[parent].add(name)
            self._recount(name)

    def remove_queue(self, name: str) -> None:
        if (before := self._queues.pop(name, None)) is not None:
            self._children[before.spec.parent_queue].discard(name)
            self._recount(name)

    def _recount(self, moved: str) -> None:
        """A queue that held something has come, gone or got another parent."""
        if moved in self._sums:
            self._sums.clear()
            for holder, usage in self._usage.items():
                self._count(holder, usage, times=1)

    def put(self, holder: Hashable, usage: Sequence[QueueUsage]) -> set[str]:
        """What the holder takes now. Returns the queues of which it took something before."""
        after = tuple(usage)
        before = self._usage.pop(holder, ())
        if after:
            self._usage[holder] = after
        if before == after:
            return set()
        self._count(holder, before, times=-1)
        self._count(holder, after, times=1)
        return {name for each in before for name in self.ancestry(each.demand.queue)}

    def _count(self, holder: Hashable, usage: tuple[QueueUsage, ...], *, times: int) -> None:
        for each in usage:
            for name in self.ancestry(each.demand.queue):
                sums = self._sums[name]
                sums.add(each, times)
                if each.turn is not None and times > 0:
                    sums.turns[holder] = (*sums.turns.get(holder, ()), each)
                else:
                    sums.turns.pop(holder, None)

    def ancestry(self, name: str) -> Iterator[str]:
        """The queue and those above it, as far as they exist."""
        seen: set[str] = set()
        while name and name not in seen:
            seen.add(name)
            yield name
            name = self._queues[name].spec.parent_queue if name in self._queues else ""

    def shortfall(
        self,
        demands: Iterable[QueueDemand],
        *,
        holder: Hashable = None,
        turn: Turn | None = None,
        over_quota: OverQuota,
        given: Mapping[str, Amounts] = _NOTHING,
    ) -> Shortfall | None:
        """Why there is no room for all of these together; None when there is. `holder`: whose own share does
        not count against it. `given`: preemptible work that KAI takes away first, by queue (`by_queue`).
        """
        wanted: dict[tuple[str, bool], dict[str, Fraction]] = {}
        for demand in demands:
            if reason := self._unusable(demand.queue):
                return Shortfall(message=reason)
            for name in self.ancestry(demand.queue):
                add(wanted.setdefault((name, demand.is_preemptible), {}), demand.amounts)
        for (name, is_preemptible), amounts in wanted.items():
            at_queue = QueueDemand(queue=name, amounts=amounts, is_preemptible=is_preemptible)
            if reason := self._short(at_queue, holder, turn, over_quota, given):
                return Shortfall(message=reason, demand=at_queue, over_quota=over_quota)
        return None

    def is_short(self, shortfall: Shortfall) -> bool:
        """Whether the queue still has no room for it."""
        demand = shortfall.demand
        if demand is None or demand.queue not in self._queues:
            return False
        return bool(self._short(demand, None, None, shortfall.over_quota))

    def by_queue(self, demands: Iterable[QueueDemand]) -> Mapping[str, Amounts]:
        """What these take of every queue and of those above it."""
        total: dict[str, dict[str, Fraction]] = {}
        for demand in demands:
            for name in self.ancestry(demand.queue):
                add(total.setdefault(name, {}), demand.amounts)
        return total

    def is_within_quota(self, demand: QueueDemand, *, holder: Hashable, turn: Turn | None) -> bool:
        """Whether this one queue, whatever lies above it, stays within its quota with the demand. Raises
        ValueError.
        """
        at_queue = replace(demand, is_preemptible=True)
        return demand.queue in self._queues and not self._short(at_queue, holder, turn, OverQuota.DENY)

    def exceeds_quota(self, name: str, *, given: Mapping[str, Amounts] = _NOTHING) -> bool:
        """Whether pods with a node hold more of the queue than its quota, without what is `given`. KAI may
        take what is above.
        """
        if name not in self._queues:
            return False
        held = self._sums[name].total(is_bound=True, preemptible_too=True)
        add(held, given.get(name, {}), times=-1)
        return exceeds(self._queues[name], held, bound="quota")

    def exceeds_limit(self, name: str) -> bool:
        """Whether pods with a node hold more of the queue than its limit, which was higher before."""
        held = self._sums[name].total(is_bound=True, preemptible_too=True)
        return name in self._queues and exceeds(self._queues[name], held, bound="limit")

    @property
    def over_quota(self) -> Iterator[str]:
        """Leaf queues from which KAI may take work for others that stay within their quota."""
        leaves = (name for name in self._queues if not self._children.get(name))
        return (name for name in leaves if any(map(self.exceeds_quota, self.ancestry(name))))

    def queue(self, name: str) -> Queue | None:
        return self._queues.get(name)

    def _short(
        self,
        demand: QueueDemand,
        holder: Hashable,
        turn: Turn | None,
        over_quota: OverQuota,
        given: Mapping[str, Amounts] = _NOTHING,
    ) -> str:
        sums, preemptible_too = self._sums[demand.queue], demand.is_preemptible
        coming = sums.total(is_bound=False, preemptible_too=preemptible_too)
        for other, usage in sums.turns.items() if turn is not None else ():
            for each in usage:
                is_counted = preemptible_too or not each.demand.is_preemptible
                if is_counted and (other == holder or not each.counts_against(turn)):
                    add(coming, each.demand.amounts, times=-1)
        bound: Amounts = sums.total(is_bound=True, preemptible_too=preemptible_too)
        queue = self._queues[demand.queue]
        taken = given.get(demand.queue, {}) if preemptible_too else {}
        return short_resource(queue, demand, bound=bound, coming=coming, given=taken, over_quota=over_quota)

    def _unusable(self, name: str) -> str:
        """Why no work of this queue can start; empty where it can."""
        if not name:
            return "names no queue; set the label kai.scheduler/queue of its object"
        if self._children.get(name):
            return f"queue {name} has queues below it; name one of those: KAI starts work in leaf queues only"
        path = list(self.ancestry(name))
        if missing := next((each for each in path if each not in self._queues), ""):
            above = f", which {path[-2]} names as its parent," if len(path) > 1 else ""
            return f"queue {missing}{above} does not exist"
        if self._queues[path[-1]].spec.parent_queue:
            return f"queue {self._queues[path[-1]].spec.parent_queue} is its own ancestor"
        return ""
