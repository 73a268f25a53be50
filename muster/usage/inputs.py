"""Reads a recording with its stack: what was held, bought, promised and paid. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

from muster.model import names
from muster.model.kueue.tree import in_pool_unit, nominal_quota, queue_name, to_tree
from muster.model.pools import Pool
from muster.model.prices import Price, PriceTable
from muster.model.quotas import is_unlimited
from muster.model.stack import Stack
from muster.render.queues import names_by_team
from muster.replay.recording import End, Job, Node, PodSet, Recording, RecordingError, Run
from muster.usage.ledger import Hold, Quotas, Supply, Window

_TAKEN: Final = (End.PREEMPTED, End.EVICTED)
Month = tuple[float, float]
"""Its first second, and that of the next one."""


@dataclass(frozen=True, slots=True)
class Rate:
    """What a GPU of a pool costs for an hour: its part of the price of its node."""

    hourly: float
    price: Price


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """`departments`: team -> the department that holds it. `rates`: by pool, without those not priced.
    `notes`: what the recording cannot tell, in sentences. `given_back`: team -> GPU-hours in which its gangs
    that were stopped as idle did not hold their GPUs. `budgets`: team -> GPU-hours of a month.
    """

    holds: Sequence[Hold]
    supplies: Sequence[Supply]
    quotas: Quotas
    window: Window
    departments: Mapping[str, str]
    rates: Mapping[str, Rate]
    notes: tuple[str, ...]
    budgets: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    given_back: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))


def read_books(recording: Recording, stack: Stack, prices: PriceTable, *, month: Month | None) -> Books:
    """RecordingError where the recording has nothing of the month."""
    window = read_window(recording, month)
    terms = to_terms(stack)
    return Books(
        holds=terms.holds(recording, window.end),
        supplies=terms.supplies(recording, window.end),
        quotas=to_quotas(stack),
        window=window,
        departments={team.name: above[-1].name for above, team in stack.teams()},
        rates=rates_of(stack, prices, sizes=terms.sizes(terms.nodes(recording))),
        notes=tuple(_notes(window)),
        budgets=stack.budgets.teams,
        given_back=terms.given_back(recording, window),
    )


def rates_of(
    stack: Stack, prices: PriceTable, *, sizes: Mapping[str, int] = MappingProxyType({})
) -> dict[str, Rate]:
    """By pool. `sizes`: GPUs of a node, where they are not those of the stack."""
    return {
        pool.name: Rate(float(price.hourly) / sizes.get(pool.name, pool.slots_per_node), price)
        for pool in stack.pools
        if pool.is_gpu and (price := prices.of(pool, stack.cluster)) is not None
    }


def parse_month(text: str) -> Month:
    """`2026-11`, in UTC; ValueError where it is none."""
    first = datetime.strptime(f"{text}-01", "%Y-%m-%d").replace(tzinfo=UTC)
    return first.timestamp(), next_month(first).timestamp()


def month_of(at: float) -> Month:
    """The month (UTC) that a moment is in."""
    return parse_month(format_month(at))


def format_month(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m")


def next_month(first: datetime) -> datetime:
    """The first moment of the month after the one that begins then."""
    return first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)


def format_day(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


def read_window(recording: Recording, month: Month | None) -> Window:
    """RecordingError where the recording has nothing of the month."""
    header = recording.header
    start, end = (header.start, header.end) if month is None else month
    window = Window(
        start=max(start, header.start),
        end=min(end, header.end),
        gaps=recording.gaps,
        nodes_from=header.nodes_from,
    )
    if window.start >= window.end:
        raise RecordingError(
            "the recording has nothing of the time that is asked for; it reaches from "
            f"{format_day(header.start)} to {format_day(header.end)}.",
            fix="name a month of this time, or leave --month out.",
        )
    return window


def _notes(window: Window) -> Iterator[str]:
    for gap in window.gaps:
        if gap.start < window.end and gap.end > window.start:
            yield (
                f"Nothing was recorded from {format_day(gap.start)} to {format_day(gap.end)}: what was "
                "bought then is unknown."
            )
    if window.nodes_from is None or window.nodes_from >= window.end:
        yield (
            "The recording has no nodes: only the hours in which jobs ran are counted. What was gated, idle, "
            "broken or booting is not known."
        )
    elif window.nodes_from > window.start:
        yield (
            f"The recording has nodes from {format_day(window.nodes_from)} on: before, only nodes that were "
            "still there then and hours in which jobs ran are counted."
        )


def _supply(pool: str, node: Node, size: int, until: float) -> Supply:
    return Supply(
        pool=pool,
        gpus=size,
        start=node.created,
        end=until if node.left is None else node.left,
        usable=tuple((each.at, each.gpus) for each in node.usable),
        booked=tuple((each.at, each.job) for each in node.booked),
    )


def to_quotas(stack: Stack) -> Quotas:
    """A quota without a bound counts as the pool."""
    tree = to_tree(stack)
    own: dict[tuple[str, str], int] = {}
    shared: defaultdict[tuple[str, str], int] = defaultdict(int)
    for pool in stack.pools:
        if not pool.is_gpu:
            continue
        for node in tree.nodes.values():
            amount = in_pool_unit(pool, nominal_quota(node, pool.name))
            gpus = int(pool.max_gpus) if is_unlimited(pool, amount) else amount
            if node.is_team:
                own[node.name, pool.name] = gpus
            else:
                shared[tree.root(node.name), pool.name] += gpus
    return Quotas(own=own, roots={node.name: tree.root(node.name) for node in tree.teams()}, shared=shared)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolTerms:
    """A pool with GPUs: its ResourceFlavor, the resource of its devices, and how many a node has of them."""

    name: str
    flavor: str
    device: str
    machine: str
    slots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What recorded names are in a stack. `teams`: namespace, or queue of KAI -> team. `owners`: team -> the
    one whose queue it uses. `queues`: ClusterQueue, or queue of KAI -> its owner.
    """

    pools: tuple[PoolTerms, ...]
    teams: Mapping[str, str]
    owners: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    queues: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def nodes(self, recording: Recording) -> list[tuple[str, Node]]:
        """Each after its pool."""
        return [(pool, node) for node in recording.nodes if (pool := self._pool_of(node)) is not None]

    def sizes(self, nodes: Sequence[tuple[str, Node]]) -> dict[str, int]:
        """GPUs of one node of each pool: those of the stack, or the most seen."""
        sizes: defaultdict[str, int] = defaultdict(int, {pool.name: pool.slots for pool in self.pools})
        for pool, node in nodes:
            sizes[pool] = max(sizes[pool], node.gpus)
        return sizes

    def supplies(self, recording: Recording, until: float) -> list[Supply]:
        nodes = self.nodes(recording)
        sizes = self.sizes(nodes)
        return [_supply(pool, node, sizes[pool], until) for pool, node in nodes]

    def _pool_of(self, node: Node) -> str | None:
        """The pool of its label, or the one whose machine it is; "" where it is of none, and None where it
        has shown no GPU and no pool of its name has any.
        """
        machine = "" if node.pool else node.machine
        fitting = [pool for pool in self.pools if node.pool == pool.name or machine == pool.machine]
        if len(fitting) == 1:
            return fitting[0].name
        return node.pool if node.gpus else None

    def holds(self, recording: Recording, until: float) -> list[Hold]:
        """One for each run and pool with GPUs."""
        return [hold for job in recording.jobs for hold in self._holds(job, until)]

    def given_back(self, recording: Recording, window: Window) -> dict[str, float]:
        """By team: from a stop of an idle gang until it has quota again, its job is gone, or the end."""
        hours: defaultdict[str, float] = defaultdict(float)
        for job in recording.jobs:
            for run, later in zip(job.runs, (*job.runs[1:], None), strict=False):
                if run.ended is None or not run.was_stopped_idle:
                    continue
                ends = (window.end, job.left, later.reserved if later else None)
                seconds = min(end for end in ends if end is not None) - max(run.ended, window.start)
                gpus = sum(self._gpus(job.pod_sets, run).values())
                hours[self.teams.get(job.team, job.team)] += gpus * max(seconds, 0.0) / 3600
        return dict(hours)

    def _holds(self, job: Job, until: float) -> Iterator[Hold]:
        team = self.teams.get(job.team)
        owner = self.queues.get(job.cluster_queue, "")
        if team is not None and not job.cluster_queue:
            owner = self.owners.get(team, "")
        for run in job.runs:
            for pools, gpus in self._gpus(job.pod_sets, run).items():
                yield Hold(
                    job=job.name or job.key,
                    id=job.id,
                    user=job.user,
                    team=job.team if team is None else team,
                    queue=owner,
                    pool=pools[0] if len(pools) == 1 else "",
                    pools=pools if len(pools) > 1 else (),
                    gpus=gpus,
                    reserved=run.reserved,
                    admitted=run.admitted,
                    ended=until if run.ended is None else run.ended,
                    is_lost=run.end in _TAKEN and not run.was_stopped_idle,
                    idle=run.idle,
                )

    def _gpus(self, pod_sets: Sequence[PodSet], run: Run) -> Mapping[tuple[str, ...], int]:
        """By the pools that they may be in: one, where that is known."""
        gpus: defaultdict[tuple[str, ...], int] = defaultdict(int)
        counts = run.counts or tuple(pods.count for pods in pod_sets)
        given = run.device_flavors or ("",) * len(pod_sets)
        for pods, count, flavor in zip(pod_sets, counts, given, strict=False):
            if asked := sum(pods.requests.get(each, 0) for each in names.DEVICE_RESOURCES):
                flavors = (flavor,) if flavor else run.flavors
                fitting = tuple(pool.name for pool in self.pools if _fits(pool, pods, flavors))
                gpus[fitting or (*pods.pools, *flavors, "")[:1]] += asked * count
        return gpus


def _fits(pool: PoolTerms, pods: PodSet, flavors: Sequence[str]) -> bool:
    is_named = not pods.pools or not {pool.name, pool.flavor}.isdisjoint(pods.pools)
    is_given = not flavors or pool.flavor in flavors
    return is_named and is_given and bool(pods.requests.get(pool.device))


def to_terms(stack: Stack) -> Terms:
    members = stack.queue_members()
    teams = {space: team.name for space, team in stack.teams_by_namespace().items()}
    queues = {queue_name(of_queue[0]): owner for owner, of_queue in members.items()}
    if not stack.scheduler.traits.admits_jobs:
        # A recording then calls a team by its queue.
        named = names_by_team(stack)
        leaves = {leaf: owner for owner in members for leaf in _leaves(named[owner])}
        teams, queues = teams | leaves, queues | leaves
    return Terms(
        pools=tuple(_pool_terms(pool) for pool in stack.pools if pool.is_gpu),
        teams=teams,
        owners={team.name: owner for owner, of_queue in members.items() for team in of_queue},
        queues=queues,
    )


def _leaves(named: str | Mapping[str, str]) -> Iterable[str]:
    return (named,) if isinstance(named, str) else named.values()


def _pool_terms(pool: Pool) -> PoolTerms:
    return PoolTerms(
        name=pool.name,
        flavor=pool.flavor,
        device=pool.device,
        machine=pool.machine.name,
        slots=pool.slots_per_node,
    )
