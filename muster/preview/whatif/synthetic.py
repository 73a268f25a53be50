"""Generates a snapshot for users who have no cluster yet: teams that request more than there is.

Deterministic: the same stack, counts and seed give the same Workloads. Running ones fill the teams' quotas in
the order of the teams; pending ones are created one after another.
"""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import cycle, islice

from muster.live.snapshot import PodSet, Snapshot, State, Toleration, Workload
from muster.model import names
from muster.model.kueue.tree import nominal_quota, queue_name, to_tree
from muster.model.pools import Pool
from muster.model.queues import Team
from muster.model.stack import Stack

_TAKEN = datetime(2026, 1, 1, tzinfo=UTC)
_SHAPES = (1, 1, 1, 2, 2, 4, 8)


def synthetic_snapshot(stack: Stack, *, running: int, pending: int, seed: int = 0) -> Snapshot:
    """At most `running` Workloads within the quotas and `pending` ones without quota, of teams that have
    GPUs.
    """
    maker = _Maker(stack, random.Random(seed))  # noqa: S311 - a generated workload, not a secret
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
