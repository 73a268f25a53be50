"""Books every GPU-hour that was bought under exactly one cause. Pure.

Each pool is swept from change to change: a node comes, boots, breaks or goes, a job gets quota, starts or
ends. Between two changes the GPUs that were bought are divided, in this order:

    unknown                      nothing was recorded
    booting, broken              the node was not usable yet, or no longer, or some of its GPUs
    lost, guaranteed, borrowed,  running jobs, the longest holder of quota first; `lost` where the run was
    lent, unknown                taken from its job, `unknown` where the stack has no such queue
    gated                        jobs with quota that wait for the rest of their nodes
    idle                         what remains

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
    `is_lost`: the run was preempted or evicted.
    """

    job: str
    user: str = ""
    team: str
    queue: str
    pool: str
    gpus: int
    reserved: float
    admitted: float | None
    ended: float
    is_lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Supply:
    """A node that was bought from `start` to `end`. `usable`: from when on how many of its GPUs could be
    used, in order; before the first that could, it boots.
    """

    pool: str
    gpus: int
    start: float
    end: float
    usable: tuple[tuple[float, int], ...] = ()


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
                (each for each in holds if each.pool == pool), key=lambda each: (each.reserved, each.job)
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
    """GPUs now. `gaps` counts those that are open; `known`: whether nodes are recorded."""

    bought: int = 0
    booting: int = 0
    usable: int = 0
    gaps: int = 0
    known: int = 0


_Change = tuple[float, str, int]
"""When, the field of `_State` and by how much it grows; or what happens to the hold of this index."""


def _changes(holds: Sequence[Hold], supplies: Sequence[Supply], window: Window) -> list[_Change]:
    """All changes in the window, in order of time; what came before happens at its start."""
    changes: list[_Change] = [(window.end, "day", 0)]
    if window.nodes_from is not None:
        changes.append((window.nodes_from, "known", 1))
    for gap in window.gaps:
        changes += [(gap.start, "gaps", 1), (gap.end, "gaps", -1)]
    for supply in supplies:
        changes += _supplied(supply)
    for index, hold in enumerate(holds):
        changes += [(hold.reserved, "hold", index), (max(hold.ended, hold.reserved), "release", index)]
        if hold.admitted is not None:
            changes.append((max(hold.admitted, hold.reserved), "admit", index))
    day = window.start - window.start % DAY
    while day < window.end:
        changes.append((day, "day", 0))
        day += DAY
    order = {"hold": 0, "admit": 1}
    within = [(min(max(at, window.start), window.end), what, amount) for at, what, amount in changes]
    return sorted(within, key=lambda each: (each[0], order.get(each[1], 2)))


def _supplied(supply: Supply) -> Iterator[_Change]:
    end = max(supply.end, supply.start)
    yield from ((supply.start, "bought", supply.gpus), (end, "bought", -supply.gpus))
    is_booting, last = True, 0
    yield supply.start, "booting", supply.gpus
    for at, usable in supply.usable:
        at, usable = min(max(at, supply.start), end), min(usable, supply.gpus)
        if is_booting and usable:
            is_booting = False
            yield at, "booting", -supply.gpus
        yield at, "usable", usable - last
        last = usable
    yield end, "usable", -last
    if is_booting:
        yield end, "booting", -supply.gpus


@dataclass(slots=True)
class _Sweep:
    """One pool. `holds` are in the order in which they got quota; `active` are the indexes of those that have
    it now, in this order.
    """

    pool: str
    holds: Sequence[Hold]
    quotas: Quotas
    lent: defaultdict[tuple[str, str], float]
    state: _State = field(default_factory=_State)
    active: list[int] = field(default_factory=list)
    running: set[int] = field(default_factory=set)
    seconds: defaultdict[tuple[float, int, Cause], float] = field(default_factory=lambda: defaultdict(float))

    def run(self, changes: Sequence[_Change]) -> None:
        last = changes[0][0]
        for at, what, amount in changes:
            if at > last:
                self._book(last, at - last)
                last = at
            self._apply(what, amount)

    def entries(self) -> Iterator[Entry]:
        for (day, index, cause), seconds in self.seconds.items():
            hold = None if index == _NO_HOLD else self.holds[index]
            yield Entry(day=day, pool=self.pool, cause=cause, hours=seconds / _HOUR, hold=hold)

    def _apply(self, what: str, amount: int) -> None:
        match what:
            case "hold":
                insort(self.active, amount)
            case "admit":
                self.running.add(amount)
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
        own = self._within_quota()
        free = state.usable if state.known else sum(self.holds[index].gpus for index in self.running)
        above: list[tuple[int, int]] = []
        for index in self.active:
            if index not in self.running:
                continue
            hold = self.holds[index]
            given = min(hold.gpus, free)
            free -= given
            if hold.is_lost:
                yield index, Cause.LOST, given
            elif hold.queue not in self.quotas.roots:
                yield index, Cause.UNKNOWN, given
            else:
                guaranteed = min(given, own[index])
                yield index, Cause.GUARANTEED, guaranteed
                if given > guaranteed:
                    above.append((index, given - guaranteed))
        if above:
            yield from self._borrowed(above, seconds)
        if not state.known:
            held = sum(self.holds[index].gpus for index in self.running)
            yield _NO_HOLD, Cause.UNKNOWN, max(state.bought - held, 0)
            return
        for index in self.active:
            if free and index not in self.running:
                given = min(self.holds[index].gpus, free)
                free -= given
                yield index, Cause.GATED, given
        yield _NO_HOLD, Cause.IDLE, free
        yield _NO_HOLD, Cause.BOOTING, state.booting
        yield _NO_HOLD, Cause.BROKEN, state.bought - state.booting - state.usable

    def _within_quota(self) -> dict[int, int]:
        """How much of each hold is within the quota of its queue."""
        left: dict[str, int] = {}
        within: dict[int, int] = {}
        for index in self.active:
            hold = self.holds[index]
            room = left.setdefault(hold.queue, self.quotas.own.get((hold.queue, self.pool), 0))
            within[index] = min(hold.gpus, room)
            left[hold.queue] = room - within[index]
        return within

    def _borrowed(self, above: Sequence[tuple[int, int]], seconds: float) -> Iterator[tuple[int, Cause, int]]:
        """What running jobs hold above their queues' quotas. Those that lend share it by what each leaves
        unused.
        """
        unused = self._unused()
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

    def _unused(self) -> dict[str, dict[str, int]]:
        """By root, the quota that each queue leaves unused."""
        held: defaultdict[str, int] = defaultdict(int)
        for index in self.active:
            held[self.holds[index].queue] += self.holds[index].gpus
        unused: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for (queue, pool), quota in self.quotas.own.items():
            if pool == self.pool and quota > held[queue]:
                unused[self.quotas.roots[queue]][queue] = quota - held[queue]
        return unused
