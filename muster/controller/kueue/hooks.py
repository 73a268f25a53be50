"""Kueue's part of the reconcile loop: a target is a Workload and one of our checks on it."""

from collections.abc import Sequence
from datetime import datetime

from muster.controller.gangs.actions import CreateTemplates
from muster.controller.gangs.create_errors import CreateRejected
from muster.controller.gangs.vacated_leases import TAKEN
from muster.controller.kube.resource import Key
from muster.controller.kueue.actions import Decision
from muster.controller.kueue.decide import after_rejection, decide
from muster.controller.kueue.executor import Executor
from muster.controller.kueue.objects import Workload
from muster.controller.kueue.snapshot import WorkloadSnapshot
from muster.controller.kueue.view import View, has_only_leases, leases_of

Target = tuple[Workload, str]


class WorkloadHooks:
    """Loads by `view`, applies by `executor`."""

    def __init__(self, view: View, executor: Executor) -> None:
        self._view, self._executor = view, executor

    def targets(self, key: Key) -> Sequence[Target] | None:
        workload = self._view.workloads.get(key)
        return [(workload, check) for check in self._view.checks_of(workload)] if workload else None

    def load(self, target: Target, *, now: datetime) -> WorkloadSnapshot:
        known, check = target
        return self._view.snapshot(self._view.workloads.get(known.key) or known, check, now=now)

    def decide(self, snapshot: WorkloadSnapshot) -> Decision:
        return decide(snapshot)

    def after_rejection(self, snapshot: WorkloadSnapshot, rejected: CreateRejected) -> Decision:
        return after_rejection(snapshot, rejected)

    async def apply(self, decision: Decision, snapshot: WorkloadSnapshot) -> None:
        notes = (each.notes for each in decision.actions if isinstance(each, CreateTemplates))
        taken = [lease for each in notes if (lease := each.get(TAKEN))]
        with self._view.split_gangs.asking(snapshot, decision), self._view.left_leases.taking(taken):
            await self._executor.run(
                decision.actions, workload=snapshot.workload, check=snapshot.check, flavors=snapshot.flavors
            )

    async def release_orphans(self, key: Key) -> None:
        if orphans := self._view.orphans(key):
            await self._executor.release_orphans(orphans, of=key)

    def leases(self, snapshot: WorkloadSnapshot) -> frozenset[str]:
        return leases_of(snapshot) if has_only_leases(snapshot) else frozenset()
