"""KAI's part of the reconcile loop: a target is a Ray cluster, or other work."""

from collections.abc import Sequence
from datetime import datetime

from muster.controller.gangs.create_errors import CreateRejected
from muster.controller.gangs.requests import Requests
from muster.controller.kai.actions import Decision
from muster.controller.kai.decide import after_rejection, decide
from muster.controller.kai.executor import Executor
from muster.controller.kai.labels import owners_at
from muster.controller.kai.objects import GangOwner
from muster.controller.kai.snapshot import ClusterSnapshot
from muster.controller.kai.view import View
from muster.controller.kube.resource import Key


class RayClusterHooks:
    """Loads by `view`, applies by `executor`."""

    def __init__(self, view: View, executor: Executor, requests: Requests) -> None:
        self._view, self._executor, self._requests = view, executor, requests

    def targets(self, key: Key) -> Sequence[GangOwner] | None:
        cluster = self._view.gangs.get(key)
        return [cluster] if cluster else None

    def load(self, target: GangOwner, *, now: datetime) -> ClusterSnapshot:
        return self._view.snapshot(self._view.gangs.get(target.key) or target, now=now)

    def decide(self, snapshot: ClusterSnapshot) -> Decision:
        decision = Decision()
        try:
            decision = decide(snapshot)
        finally:
            # One that cannot be decided keeps no place in the line.
            self._view.gathering.decided(snapshot, decision)
        return decision

    def after_rejection(self, snapshot: ClusterSnapshot, rejected: CreateRejected) -> Decision:
        return after_rejection(snapshot, rejected)

    async def apply(self, decision: Decision, snapshot: ClusterSnapshot) -> None:
        made_of = decision.begins.pod_group_demands if decision.begins else ()
        with self._view.gathering.applying(snapshot, decision):
            await self._executor.run(decision.actions, cluster=snapshot.cluster, pod_group_demands=made_of)

    async def release_orphans(self, key: Key) -> None:
        if orphans := self._view.orphans(key):
            owners, of = owners_at(key)
            await self._requests.release_orphans(orphans, of=of, owners=owners)

    def leases(self, snapshot: ClusterSnapshot) -> frozenset[str]:
        return frozenset()
