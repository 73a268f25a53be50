"""The reconciler over a world on paper: what it reads and writes instead of caches and an API server."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime

from muster.controller.gangs.vacated_leases import LeftLeases
from muster.controller.kube.resource import Key
from muster.controller.kueue.actions import Action, Decision
from muster.controller.kueue.objects import Workload
from muster.controller.kueue.snapshot import WorkloadSnapshot
from tests.unit.admission.gang_world import CHECK, World


@dataclass
class Caches:
    """The world as the reconciler reads and writes it."""

    world: World
    left_leases: LeftLeases = field(default_factory=LeftLeases)

    @property
    def workloads(self) -> Caches:
        return self

    def get(self, key: Key) -> Workload | None:
        return self.world.workloads.get(key.name)

    def orphans(self, key: Key) -> list[object]:
        return []

    def checks_of(self, workload: Workload) -> tuple[str, ...]:
        return (CHECK,)

    @property
    def split_gangs(self) -> Caches:
        return self

    def asking(self, snapshot: WorkloadSnapshot, decision: Decision) -> AbstractContextManager[None]:
        return nullcontext()

    def snapshot(self, workload: Workload, check: str, *, now: datetime) -> WorkloadSnapshot:
        return self.world.snapshot(workload.metadata.name)

    async def run(
        self, actions: Sequence[Action], *, workload: Workload, check: str, flavors: object
    ) -> None:
        assert workload is self.world.workloads[workload.metadata.name], "a Conflict: it has changed since"
        for action in actions:
            self.world.carry_out(workload.metadata.name, action)
