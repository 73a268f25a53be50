"""What a side simulates: the Workloads of a snapshot, and how long their jobs run."""

import random
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import cycle, islice

from muster.live.snapshot import PodSet, Snapshot, State, Toleration, Workload
from muster.model import names
from muster.model.kueue.tree import nominal_quota, queue_name, to_tree
from muster.model.pools import Pool
from muster.model.queues import Team
from muster.model.stack import Stack
from muster.replay import stored

# The decision about each Workload.


class WorkloadState(StrEnum):
    """running: as before. admitted: it was pending and runs now. ended: its duration was over."""

    RUNNING = "running"
    ADMITTED = "admitted"
    PENDING = "pending"
    INACTIVE = "inactive"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """`why` is Kueue's reason for keeping it pending. `preemptor`: the Workload that preempted it, "" for
    none.

    `waited`: seconds of the jobs' time until it was admitted, None where durations are not simulated.
    """

    namespace: str
    name: str
    state: WorkloadState
    why: str = ""
    preemptor: str = ""
    how: str = ""
    waited: float | None = None

    @property
    def label(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def is_preempted(self) -> bool:
        return bool(self.how)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One side. `used`: by (namespace, LocalQueue), flavor -> GPUs in use. `is_settled` is False where time
    ran out before Kueue was done.

    `unexplained`: pending Workloads without a reason from Kueue. They are behind others in a strict queue, or
    Kueue skipped them because an equivalent Workload was decided first.
    """

    decisions: Mapping[str, Decision]
    used: Mapping[tuple[str, str], Mapping[str, int]]
    is_settled: bool
    seconds: float

    @property
    def gpus(self) -> Mapping[str, int]:
        """Flavor -> GPUs in use, in all queues."""
        return sum((Counter(each) for each in self.used.values()), Counter[str]())

    @property
    def unexplained(self) -> int:
        return sum(
            1 for each in self.decisions.values() if each.state is WorkloadState.PENDING and not each.why
        )


# Generates a snapshot for users who have no cluster yet: teams that request more than there is.
# Deterministic: the same stack, counts and seed give the same Workloads. Running ones fill the teams'
# quotas in the order of the teams; pending ones are created one after another.

_TAKEN = datetime(2026, 1, 1, tzinfo=UTC)
_SHAPES = (1, 1, 1, 2, 2, 4, 8)


def synthetic_snapshot(stack: Stack, *, running: int, pending: int) -> Snapshot:
    """At most `running` Workloads within the quotas and `pending` ones without quota, of teams that have
    GPUs.
    """
    maker = _Maker(stack, random.Random(0))  # noqa: S311 - a generated workload, not a secret
    holding = [*islice(maker.running(), running)]
    waiting = [*islice(maker.waiting(), pending)]
    ordered = sorted([*holding, *waiting], key=lambda each: (each.namespace, each.name))
    return Snapshot(taken=_TAKEN, scheduler=stack.scheduler, queues=(), workloads=tuple(ordered))


class _Maker:
    """Generates the Workloads of the teams of one stack."""

    def __init__(self, stack: Stack, dice: random.Random) -> None:
        self._stack = stack
        self._dice = dice
        self._nodes = to_tree(stack).nodes
        self._pools = {team.name: self._pools_of(team) for _, team in stack.owners()}

    def running(self) -> Iterator[Workload]:
        """Team by team, until the quota of every pool is used."""
        for _, team in self._stack.owners():
            for pool in self._pools[team.name]:
                owned = nominal_quota(self._nodes[team.name], pool.name).gpus
                left, index = min(int(owned), pool.max_gpus), 0
                while left > 0:
                    gpus, index = min(self._dice.choice(_SHAPES), left), index + 1
                    left -= gpus
                    yield self._workload(team, pool, f"run-{pool.name}-{index}", gpus=gpus, holds=True)

    def waiting(self) -> Iterator[Workload]:
        """One team after another, without end. Nothing where no team has a GPU."""
        teams = [team for _, team in self._stack.owners() if self._pools[team.name]]
        for index, team in enumerate(cycle(teams)):
            pool, gpus = self._dice.choice(self._pools[team.name]), self._dice.choice(_SHAPES)
            yield self._workload(team, pool, f"wait-{index}", gpus=gpus, holds=False, after=index)

    def _pools_of(self, team: Team) -> list[Pool]:
        """The GPU pools in which a team has quota."""
        node = self._nodes[team.name]
        return [pool for pool in self._stack.pools if pool.is_gpu and nominal_quota(node, pool.name).gpus]

    def _workload(
        self, team: Team, pool: Pool, name: str, *, gpus: int, holds: bool, after: int = 0
    ) -> Workload:
        allowed = [
            each for each in self._stack.priorities if not team.priorities or each.name in team.priorities
        ]
        priority = self._dice.choice(allowed) if allowed else None
        amounts = {pool.device: gpus}
        pods = PodSet(
            name="main",
            count=1,
            requests=amounts,
            node_selector={names.POOL_LABEL: pool.name},
            tolerations=(Toleration(pool.device, "Exists", "", "NoSchedule"),),
            assigned=1 if holds else None,
            flavors={pool.device: pool.flavor} if holds else {},
            usage=amounts if holds else {},
        )
        return Workload(
            namespace=team.namespace,
            name=name,
            queue=team.local_queue,
            created=_TAKEN - timedelta(days=1 if holds else 0) + timedelta(seconds=after),
            pod_sets=(pods,),
            state=State.ADMITTED if holds else State.PENDING,
            priority=priority.value if priority else 0,
            priority_class=priority.name if priority else "",
            cluster_queue=queue_name(team) if holds else "",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What to simulate. `durations`: seconds that jobs run, by namespace, "" for all others; a job without
    one never ends.
    """

    snapshot: Snapshot
    durations: Mapping[str, float] = field(default_factory=dict)

    def seconds(self, namespace: str) -> float | None:
        """How long a job of this namespace runs; None without a duration."""
        return self.durations.get(namespace, self.durations.get(""))

    @property
    def holding(self) -> list[Workload]:
        return [each for each in self.snapshot.workloads if each.is_holding]

    @property
    def waiting(self) -> list[Workload]:
        """In the order in which Kueue would consider them."""
        found = (each for each in self.snapshot.workloads if not each.is_holding)
        return sorted(found, key=lambda each: (-each.priority, each.created))

    def ran(self, workload: Workload) -> float:
        """Seconds that a Workload with quota had run when the snapshot was taken."""
        since = workload.since("Admitted") or self.snapshot.taken
        return max((self.snapshot.taken - since).total_seconds(), 0.0)

    def equivalence_keys(self) -> dict[str, Hashable]:
        """uid -> everything that Kueue decides by. Two Workloads with equal values are pending for the same
        reason.
        """
        return {
            stored.uid(each.namespace, each.name): (
                each.namespace,
                each.queue,
                each.priority,
                str(
                    [
                        (pods.count, pods.min_count, pods.requests, pods.node_selector)
                        for pods in each.pod_sets
                    ]
                ),
                str([(pods.tolerations, pods.terms) for pods in each.pod_sets]),
            )
            for each in self.snapshot.workloads
        }
