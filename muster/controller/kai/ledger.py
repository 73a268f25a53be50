"""What the queues hold, as running sums, and whether they have room.

A queue counts what its own pods take and what those of all queues below it take: pods with a node (KAI counts
them as allocated, a little later than we see them), released pods that have no node yet, and gangs that have
requested capacity or have begun to pass. A change or a question costs the depth of the tree, whatever the
number of pods. Plain data: gathering.py keeps it up with the caches.

Within a queue a gang that gathers gives its room to one of a higher priority, as a Workload does that Kueue
preempts: it releases what it has requested, and then the other one begins. Only where that one would have
all of its room so, and only those from the end of the order that it needs.
"""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Final

from muster.controller.kai.objects import Queue
from muster.controller.kai.queue_capacity import (
    QueueDemand,
    QueueOrder,
    QueueUsage,
    Shortfall,
    Turn,
    demands_by_queue,
    exceeds,
    short_resource,
)
from muster.controller.kube.resource import Key
from muster.model.gangpolicy import OverQuota
from muster.model.pods import Amounts, add

_NOTHING: Final[Mapping[str, Amounts]] = MappingProxyType({})
_UNMOVED: Final[Mapping[bool, Amounts]] = MappingProxyType({})

_MOST_ASKED: Final = 8
"""Of the gangs that wait in a queue: how many are looked at for one that others give way to."""


@dataclass(slots=True)
class _Sums:
    """Of one queue and all below it: by whether the work is preemptible and whether its pods are bound."""

    amounts: dict[tuple[bool, bool], dict[str, Fraction]] = field(default_factory=dict)
    turns: dict[Hashable, tuple[QueueUsage, ...]] = field(default_factory=dict)
    """What gangs that gather take, by gang; it is in the sums as well."""
    gathered: dict[int, dict[bool, dict[str, Fraction]]] = field(default_factory=dict)
    """What those take that gather in this very queue and may give way, by their priority and by whether it is
    preemptible.
    """

    def add(self, usage: QueueUsage, times: int) -> None:
        kind = usage.demand.is_preemptible, usage.is_bound
        add(self.amounts.setdefault(kind, {}), usage.demand.amounts, times=times)

    def gather(self, usage: QueueUsage, priority: int, times: int) -> None:
        kinds = self.gathered.setdefault(priority, {False: {}, True: {}})
        add(kinds[usage.demand.is_preemptible], usage.demand.amounts, times=times)
        if not any(any(amounts.values()) for amounts in kinds.values()):
            del self.gathered[priority]

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
        self._waiters: dict[Key, tuple[Shortfall, ...]] = {}
        self._short_of: defaultdict[str, dict[Key, None]] = defaultdict(dict)
        self._waiting_in: defaultdict[str, list[tuple[QueueOrder, Shortfall]]] = defaultdict(list)
        """By leaf queue, in order."""
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
            if each.priority is not None:
                self._sums[each.demand.queue].gather(each, each.priority, times)
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
        order: QueueOrder | None = None,
        over_quota: OverQuota,
        given: Mapping[str, Amounts] = _NOTHING,
    ) -> Shortfall | None:
        """Why there is no room for all of these together; None when there is. `holder`: whose own share does
        not count against it. `order`: of a gang that gives way to those of a higher priority. `given`:
        preemptible work that KAI takes away first, by queue (`by_queue`).
        """
        wanted = tuple(demands)
        for demand in wanted:
            if reason := self._unusable(demand.queue):
                return Shortfall(message=reason)
        is_counted = _counts_for(holder, turn)
        for at_queue in self._at_each_queue(wanted):
            if reason := self._short(at_queue, over_quota, is_counted=is_counted, given=given):
                return Shortfall(
                    message=reason, demand=at_queue, demands=wanted, order=order, over_quota=over_quota
                )
        if order is not None and (short := self._gives_way(wanted, order, turn)):
            message = f"queue {short.queue} gives its room to a gang of higher priority first"
            return Shortfall(
                message=message, demand=short, demands=wanted, order=order, over_quota=over_quota
            )
        return None

    # Gangs that wait for room

    def await_room(self, waiter: Key, shortfalls: tuple[Shortfall, ...]) -> set[str]:
        """What this one lacks from now on; () where it does not wait. Returns the queues where gangs of lower
        priorities may have waited for it until now.
        """
        freed = set[str]()
        if self._waiters.get(waiter, ()) == shortfalls:
            return freed
        for short in self._waiters.pop(waiter, ()):
            self._short_of[_queue_of(short)].pop(waiter, None)
            if short.demand is not None and short.order is not None:
                line = self._waiting_in[short.demands[0].queue]
                del line[bisect_left(line, short.order, key=_order)]
                if line and line[-1][0][0] > short.order[0]:
                    freed.add(short.demands[0].queue)
        if shortfalls:
            self._waiters[waiter] = shortfalls
        for short in shortfalls:
            self._short_of[_queue_of(short)][waiter] = None
            if short.demand is not None and short.order is not None:
                insort(self._waiting_in[short.demands[0].queue], (short.order, short), key=_order)
        return freed

    def waiting_for(self, name: str) -> Collection[Key]:
        """Who lacks room in this queue; of the empty name, a queue that takes work."""
        return tuple(self._short_of.get(name, ()))

    @property
    def waiters(self) -> Collection[Key]:
        """Who lacks room in any queue."""
        return self._waiters.keys()

    def has_room_for(self, waiter: Key) -> bool:
        """Whether all queues of which it was short have room for it now. Raises ValueError."""
        return not any(map(self._is_short, self._waiters[waiter]))

    def _is_short(self, short: Shortfall) -> bool:
        if short.demand is None or short.demand.queue not in self._queues:
            return False
        if self._short(short.demand, short.over_quota):
            return True
        return short.order is not None and self._gives_way(short.demands, short.order, None) is not None

    def outranked_by(self, waiter: Key) -> set[Hashable]:
        """Gangs that gather and that it has precedence over. Raises ValueError."""
        return {holder for short in self._waiters.get(waiter, ()) for holder in self.outranked(short)}

    def outranked(self, short: Shortfall) -> set[Hashable]:
        """Gangs that gather in its queue with a lower priority and whose room it needs: from the end of their
        order, as many as it takes. None where all of them are not enough, or where it is not one of the first
        that wait there. Raises ValueError.
        """
        if short.demand is None or short.order is None:
            return set()
        name, priority = short.demands[0].queue, -short.order[0]
        first = self._waiting_in.get(name, ())[:_MOST_ASKED]
        is_first = len(first) < _MOST_ASKED or short.order <= first[-1][0]
        leaf = self._sums[name]
        is_any = is_first and any(each < priority for each in leaf.gathered)
        if not (is_any and self._fits(short, without=self._gathered_below(name, priority))):
            return set()
        lower = [
            (-each.priority, each.turn, holder, each.demand)
            for holder, held in leaf.turns.items()
            for each in held
            if each.demand.queue == name
            and each.turn
            and each.priority is not None
            and each.priority < priority
        ]
        found, given = set[Hashable](), list[QueueDemand]()
        for _, _, holder, demand in sorted(lower, key=lambda each: each[:2], reverse=True):
            if holder not in found and self._fits(short, without=given):
                break
            found.add(holder)
            given.append(demand)
        return found

    def _gives_way(
        self, demands: tuple[QueueDemand, ...], order: QueueOrder, turn: Turn | None
    ) -> QueueDemand | None:
        """What it takes of a queue where a gang of a higher priority waits: one that would have room without
        those of lower priorities, and has none beside this one and those before it.
        """
        for mine in demands:
            for before, other in self._waiting_in.get(mine.queue, ())[:_MOST_ASKED]:
                if before[0] >= order[0]:
                    break
                if not self._fits(other, without=self._gathered_below(mine.queue, -before[0])):
                    continue
                after = self._gathered_below(mine.queue, -order[0], turn)
                if not self._fits(other, without=after, beside=demands if turn is None else ()):
                    return mine
                break  # That one begins, and what is left is for the next.
        return None

    def _gathered_below(self, name: str, priority: int, turn: Turn | None = None) -> list[QueueDemand]:
        """What gangs of lower priorities gather in this queue, and with a turn those of the same that asked
        later.
        """
        leaf = self._sums[name]
        found = [
            QueueDemand(queue=name, amounts=amounts, is_preemptible=is_preemptible)
            for each, kinds in leaf.gathered.items()
            if each < priority
            for is_preemptible, amounts in kinds.items()
        ]
        if turn is not None and priority in leaf.gathered:
            found += [
                each.demand
                for held in leaf.turns.values()
                for each in held
                if each.demand.queue == name and each.priority == priority and each.turn and each.turn > turn
            ]
        return found

    def _fits(
        self, waiting: Shortfall, *, without: Iterable[QueueDemand], beside: Iterable[QueueDemand] = ()
    ) -> bool:
        """Whether it had room `without` what these gather and `beside` what others take."""
        if any(self._unusable(each.queue) for each in waiting.demands):
            return False
        moved: defaultdict[str, dict[bool, dict[str, Fraction]]] = defaultdict(lambda: {False: {}, True: {}})
        for demands, times in ((without, -1), (beside, 1)):
            for each in demands:
                for name in self.ancestry(each.queue):
                    add(moved[name][each.is_preemptible], each.amounts, times=times)
        return not any(
            self._short(at_queue, waiting.over_quota, moved=moved[at_queue.queue])
            for at_queue in self._at_each_queue(waiting.demands)
        )

    def _at_each_queue(self, demands: Iterable[QueueDemand]) -> Iterator[QueueDemand]:
        """What these take together of every queue and of those above it."""
        return demands_by_queue(
            replace(demand, queue=name) for demand in demands for name in self.ancestry(demand.queue)
        )

    # Quotas

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
        is_counted = _counts_for(holder, turn)
        return demand.queue in self._queues and not self._short(
            at_queue, OverQuota.DENY, is_counted=is_counted
        )

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
        over_quota: OverQuota,
        *,
        is_counted: Callable[[Hashable, QueueUsage], bool] | None = None,
        given: Mapping[str, Amounts] = _NOTHING,
        moved: Mapping[bool, Amounts] = _UNMOVED,
    ) -> str:
        """`is_counted`: of what gangs that gather take, by holder; None counts all of it. `moved`: what comes
        to it or goes, by whether it is preemptible.
        """
        sums, preemptible_too = self._sums[demand.queue], demand.is_preemptible
        coming = sums.total(is_bound=False, preemptible_too=preemptible_too)
        for holder, usage in sums.turns.items() if is_counted else ():
            for each in usage:
                is_of_kind = preemptible_too or not each.demand.is_preemptible
                if is_of_kind and is_counted is not None and not is_counted(holder, each):
                    add(coming, each.demand.amounts, times=-1)
        for is_preemptible, amounts in moved.items():
            if preemptible_too or not is_preemptible:
                add(coming, amounts)
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


def _counts_for(holder: Hashable, turn: Turn | None) -> Callable[[Hashable, QueueUsage], bool] | None:
    """What counts against a gang with this turn: of others that gather, those that asked before it."""
    if turn is None:
        return None
    return lambda other, each: other != holder and each.counts_against(turn)


def _order(entry: tuple[QueueOrder, Shortfall]) -> QueueOrder:
    return entry[0]


def _queue_of(short: Shortfall) -> str:
    return short.demand.queue if short.demand else ""
