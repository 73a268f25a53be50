"""Books every GPU-hour that was bought under exactly one cause. Pure.

Each pool is swept from change to change: a node comes, boots, breaks or goes, a job gets quota, starts or
ends. Between two changes the GPUs that were bought are divided, in this order:

    unknown                      nothing was recorded
    booting, broken              the node was not usable yet, or no longer, or some of its GPUs
    lost, guaranteed, borrowed,  running jobs, the longest holder of quota first; `lost` where the run was
    lent, unknown, idle          taken from its job, `unknown` where the stack has no such queue, `idle`
                                 where its GPUs do nothing
    gated                        nodes that were bought for a job with quota, which waits for the rest of them
    unknown                      as many as jobs may have whose pool or whose nodes are not known
    idle                         what remains

A job runs on the nodes that were bought for it. One that started without all of them also runs on others that
are kept for nobody who has quota.

A queue's holders fill its quota in the same order; what they hold above it comes from the quota that cohorts
have of their own (`borrowed`), then from what other queues of the cohort leave unused (`lent`).
"""

from bisect import insort
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from muster.replay.recording import Gap

DAY: Final = 86_400.0
_HOUR: Final = 3600.0
_NO_HOLD: Final = -1


class Cause(StrEnum):
    """What a GPU-hour was spent on."""

    GUARANTEED = "guaranteed"
    BORROWED = "borrowed"
    LENT = "lent"
    LOST = "lost"
    GATED = "gated"
    IDLE = "idle"
    BROKEN = "broken"
    BOOTING = "booting"
    UNKNOWN = "unknown"

    @property
    def heading(self) -> str:
        """The word above the hours of the one that used them, who is not the one that lent them."""
        return "lent to it" if self is Cause.LENT else self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """GPUs of one pool that a job had quota for in one run, from `reserved` to `ended`; its pods ran from
    `admitted`, None where they never did. `queue` is the name of its owner in the stack, "" for none.
    `is_lost`: the run was preempted or evicted. `id`: by it nodes say whom they were bought for. `pools`:
    where `pool` is "", those that it may be in. `idle`: since when it did nothing, if it did.
    """

    job: str
    id: str = ""
    user: str = ""
    team: str
    queue: str
    pool: str
    gpus: int
    reserved: float
    admitted: float | None
    ended: float
    is_lost: bool = False
    pools: tuple[str, ...] = ()
    idle: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Supply:
    """A node that was bought from `start` to `end`. `usable`: from when on how many of its GPUs could be
    used, in order; before the first that could, it boots. `booked`: from when on it is kept for the hold of
    which id, "" for none; before the first, that is not known.
    """

    pool: str
    gpus: int
    start: float
    end: float
    usable: tuple[tuple[float, int], ...] = ()
    booked: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """GPUs. `own`: (queue, pool) -> its quota. `roots`: queue -> the top of its cohort. `shared`: (root,
    pool) -> quota that cohorts have of their own.
    """

    own: Mapping[tuple[str, str], int]
    roots: Mapping[str, str]
    shared: Mapping[tuple[str, str], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """`nodes_from`: since when nodes were recorded, None for never. Before, only what jobs ran on and nodes
    that were still there later are known to be bought, and what else a node did then is unknown.
    """

    start: float
    end: float
    gaps: Sequence[Gap] = ()
    nodes_from: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """GPU-hours of one day, pool and cause. `day` is its first second (UTC). `hold`: who had them, if a job
    did.
    """

    day: float
    pool: str
    cause: Cause
    hours: float
    hold: Hold | None = None


@dataclass(frozen=True, slots=True)
class Ledger:
    """`lent`: (queue that lent, team that used it) -> GPU-hours, those of `Cause.LENT`."""

    entries: tuple[Entry, ...]
    lent: Mapping[tuple[str, str], float]


def book(holds: Sequence[Hold], supplies: Sequence[Supply], quotas: Quotas, window: Window) -> Ledger:
    """The ledger of a window, ordered by day, pool, job and cause."""
    entries: list[Entry] = []
    lent: defaultdict[tuple[str, str], float] = defaultdict(float)
    for pool in sorted({each.pool for each in holds} | {each.pool for each in supplies}):
        sweep = _Sweep(
            pool=pool,
            holds=sorted(
                (each for each in holds if each.pool == pool or pool in each.pools),
                key=lambda each: (each.reserved, each.job),
            ),
            quotas=quotas,
            lent=lent,
        )
        sweep.run(_changes(sweep.holds, [each for each in supplies if each.pool == pool], window))
        entries += sweep.entries()
    entries.sort(key=lambda each: (each.day, each.pool, each.hold.job if each.hold else "", each.cause))
    return Ledger(tuple(entries), dict(lent))


@dataclass(slots=True)
class _State:
    """GPUs now. `unbooked`: those that are usable and of which nothing says whom they were bought for. `gaps`
    counts those that are open; `known`: whether nodes are recorded.
    """

    bought: int = 0
    booting: int = 0
    usable: int = 0
    unbooked: int = 0
    gaps: int = 0
    known: int = 0


_Change = tuple[float, str, int, str]
"""When, the field of `_State` and by how much it grows; or what happens to the hold of this index; or by how
many the usable GPUs grow that are kept for the hold of this id.
"""


def _changes(holds: Sequence[Hold], supplies: Sequence[Supply], window: Window) -> list[_Change]:
    """All changes in the window, in order of time; what came before happens at its start."""
    changes: list[_Change] = [(window.end, "day", 0, "")]
    if window.nodes_from is not None:
        changes.append((window.nodes_from, "known", 1, ""))
    for gap in window.gaps:
        changes += [(gap.start, "gaps", 1, ""), (gap.end, "gaps", -1, "")]
    for supply in supplies:
        changes += _supplied(supply)
    for index, hold in enumerate(holds):
        ended = max(hold.ended, hold.reserved)
        changes += [(hold.reserved, "hold", index, ""), (ended, "release", index, "")]
        if hold.admitted is not None:
            changes.append((max(hold.admitted, hold.reserved), "admit", index, ""))
        if hold.idle is not None:
            changes.append((min(max(hold.idle, hold.reserved), ended), "rest", index, ""))
    day = window.start - window.start % DAY
    while day < window.end:
        changes.append((day, "day", 0, ""))
        day += DAY
    order = {"hold": 0, "admit": 2, "rest": 2, "release": 3}
    within = [(min(max(each[0], window.start), window.end), *each[1:]) for each in changes]
    return sorted(within, key=lambda each: (each[0], order.get(each[1], 1)))


def _supplied(supply: Supply) -> Iterator[_Change]:
    end = max(supply.end, supply.start)
    yield from ((supply.start, "bought", supply.gpus, ""), (end, "bought", -supply.gpus, ""))
    is_booting, last, job = True, 0, None
    yield supply.start, "booting", supply.gpus, ""
    states: list[tuple[float, int | str]] = [*supply.usable, *supply.booked]
    for at, state in (*sorted(states, key=lambda each: each[0]), (end, 0)):
        at = min(max(at, supply.start), end)
        if isinstance(state, str):
            yield from ((at, *_kept(job, -last)), (at, *_kept(state, last)))
            job = state
            continue
        usable = min(state, supply.gpus)
        if is_booting and (usable or at == end):
            is_booting = False
            yield at, "booting", -supply.gpus, ""
        yield from ((at, "usable", usable - last, ""), (at, *_kept(job, usable - last)))
        last = usable


def _kept(job: str | None, gpus: int) -> tuple[str, int, str]:
    return ("unbooked", gpus, "") if job is None else ("booked", gpus, job)


@dataclass(slots=True)
class _Sweep:
    """One pool. `holds` are in the order in which they got quota; `active` are the indexes of those that have
    it now, in this order, and `running` has those that were admitted. `resting`: those that do nothing.
    `whole`: those that had all their GPUs on nodes that were bought for them when they were admitted.
    """

    pool: str
    holds: Sequence[Hold]
    quotas: Quotas
    lent: defaultdict[tuple[str, str], float]
    state: _State = field(default_factory=_State)
    active: list[int] = field(default_factory=list)
    running: set[int] = field(default_factory=set)
    resting: set[int] = field(default_factory=set)
    whole: set[int] = field(default_factory=set)
    booked: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    seconds: defaultdict[tuple[float, int, Cause], float] = field(default_factory=lambda: defaultdict(float))

    def run(self, changes: Sequence[_Change]) -> None:
        last = changes[0][0]
        for at, what, amount, job in changes:
            if at > last:
                self._book(last, at - last)
                last = at
            self._apply(what, amount, job)

    def entries(self) -> Iterator[Entry]:
        for (day, index, cause), seconds in self.seconds.items():
            hold = None if index == _NO_HOLD else self.holds[index]
            yield Entry(day=day, pool=self.pool, cause=cause, hours=seconds / _HOUR, hold=hold)

    def _apply(self, what: str, amount: int, job: str) -> None:
        match what:
            case "booked":
                self.booked[job] += amount
            case "hold":
                insort(self.active, amount)
            case "admit":
                self.running.add(amount)
                if self._booked(self.holds[amount]) >= self.holds[amount].gpus:
                    self.whole.add(amount)
            case "rest":
                self.resting.add(amount)
            case "release":
                self.active.remove(amount)
                self.running.discard(amount)
            case "day":
                pass
            case _:
                setattr(self.state, what, getattr(self.state, what) + amount)

    def _book(self, start: float, seconds: float) -> None:
        """What the GPUs were spent on from `start` on, in which nothing changes and no day begins."""
        day = start - start % DAY
        for index, cause, gpus in self._shares(seconds):
            if gpus > 0:
                self.seconds[day, index, cause] += gpus * seconds

    def _shares(self, seconds: float) -> Iterator[tuple[int, Cause, int]]:
        state = self.state
        if state.gaps:
            yield _NO_HOLD, Cause.UNKNOWN, state.bought
            return
        here = [index for index in self.active if self.holds[index].pool == self.pool]
        own, kept = self._within_quota(here), self._kept(here)
        held = sum(self.holds[index].gpus for index in here if index in self.running)
        free = (state.usable if state.known else held) - sum(kept.values())
        above: list[tuple[int, int]] = []
        for index in here:
            if index not in self.running:
                continue
            hold = self.holds[index]
            is_whole = state.known and index in self.whole
            given = kept[index] + (0 if is_whole else min(hold.gpus - kept[index], free))
            free -= given - kept[index]
            if index in self.resting:
                yield index, Cause.IDLE, given
            elif hold.is_lost:
                yield index, Cause.LOST, given
            elif hold.queue not in self.quotas.roots or not self.pool:
                yield index, Cause.UNKNOWN, given
            else:
                guaranteed = min(given, own[index])
                yield index, Cause.GUARANTEED, guaranteed
                if given > guaranteed:
                    above.append((index, given - guaranteed))
        if above:
            yield from self._borrowed(above, here, seconds)
        if not state.known:
            yield _NO_HOLD, Cause.UNKNOWN, max(state.bought - held, 0)
            return
        waiting = [index for index in here if index not in self.running]
        for index in waiting:
            yield index, Cause.GATED, kept[index]
        without = sum(self.holds[index].gpus for index in waiting if not kept[index])
        elsewhere = sum(hold.gpus for index in self.active if (hold := self.holds[index]).pool != self.pool)
        unknown = min(min(without, state.unbooked) + elsewhere, free)
        yield _NO_HOLD, Cause.UNKNOWN, unknown
        yield _NO_HOLD, Cause.IDLE, free - unknown
        yield _NO_HOLD, Cause.BOOTING, state.booting
        yield _NO_HOLD, Cause.BROKEN, state.bought - state.booting - state.usable

    def _booked(self, hold: Hold) -> int:
        return self.booked.get(hold.id, 0) if hold.id else 0

    def _kept(self, here: Sequence[int]) -> dict[int, int]:
        """How many of the GPUs that each hold may use were bought for it."""
        if not self.state.known:
            return dict.fromkeys(here, 0)
        left: dict[str, int] = {}
        kept: dict[int, int] = {}
        for index in here:
            hold = self.holds[index]
            room = left.setdefault(hold.id, self._booked(hold))
            kept[index] = min(hold.gpus, room)
            left[hold.id] = room - kept[index]
        return kept

    def _within_quota(self, here: Sequence[int]) -> dict[int, int]:
        """How much of each hold is within the quota of its queue."""
        left: dict[str, int] = {}
        within: dict[int, int] = {}
        for index in here:
            hold = self.holds[index]
            room = left.setdefault(hold.queue, self.quotas.own.get((hold.queue, self.pool), 0))
            within[index] = min(hold.gpus, room)
            left[hold.queue] = room - within[index]
        return within

    def _borrowed(
        self, above: Sequence[tuple[int, int]], here: Sequence[int], seconds: float
    ) -> Iterator[tuple[int, Cause, int]]:
        """What running jobs hold above their queues' quotas. Those that lend share it by what each leaves
        unused.
        """
        unused = self._unused(here)
        rooms = {root: sum(queues.values()) for root, queues in unused.items()}
        shared: dict[str, int] = {}
        for index, gpus in above:
            hold = self.holds[index]
            root = self.quotas.roots[hold.queue]
            spare = shared.setdefault(root, self.quotas.shared.get((root, self.pool), 0))
            lent = min(max(gpus - spare, 0), rooms.get(root, 0))
            shared[root] = max(spare - gpus, 0)
            if lent:
                rooms[root] -= lent
                total = sum(unused[root].values())
                for queue, gpus_unused in unused[root].items():
                    self.lent[queue, hold.team] += lent * gpus_unused / total * seconds / _HOUR
            yield index, Cause.LENT, lent
            yield index, Cause.BORROWED, gpus - lent

    def _unused(self, here: Sequence[int]) -> dict[str, dict[str, int]]:
        """By root, the quota that each queue leaves unused."""
        held: defaultdict[str, int] = defaultdict(int)
        for index in here:
            held[self.holds[index].queue] += self.holds[index].gpus
        unused: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for (queue, pool), quota in self.quotas.own.items():
            if pool == self.pool and quota > held[queue]:
                unused[self.quotas.roots[queue]][queue] = quota - held[queue]
        return unused
