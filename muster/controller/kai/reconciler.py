"""One Ray cluster: look, decide, act.

Decides only when to look again. What is looked at is view.py's, the decision decide.py's, the writes
executor.py's. Nothing is remembered here but who waits for whose news, and losing that costs seconds.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from muster.controller.gangs.actions import CreateRequest, CreateTemplates, EmitEvent, WaitReason
from muster.controller.gangs.create_errors import CreateRejected
from muster.controller.gangs.node_predicates import node_changed
from muster.controller.gangs.objects import Node
from muster.controller.gangs.rate_limit import RetryLimiter
from muster.controller.gangs.requests import Requests
from muster.controller.kai.actions import Decision, Ungate
from muster.controller.kai.decide import after_rejection, decide
from muster.controller.kai.executor import Executor
from muster.controller.kai.labels import CLUSTER_UID
from muster.controller.kai.objects import RAY_CLUSTER, RayCluster
from muster.controller.kai.snapshot import ClusterSnapshot
from muster.controller.kai.view import View
from muster.controller.kube.resource import Key
from muster.controller.runtime.clock import utc_now
from muster.controller.runtime.controller import RequeueAfter, Result
from muster.model.gangpolicy import GangPolicy

POLL_INTERVAL: Final = timedelta(seconds=10)
"""While a gang waits for others, news may come in ways that name no key: look again this often."""


class GangReconciler:
    """Reconciles Ray clusters by key. `enqueue` puts the key of another one into the queue."""

    def __init__(
        self,
        view: View,
        executor: Executor,
        requests: Requests,
        *,
        enqueue: Callable[[Key], None],
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._view, self._executor, self._requests = view, executor, requests
        self._enqueue, self._clock = enqueue, clock
        self._waiting: dict[WaitReason, set[Key]] = {"nodes": set(), "turn": set(), "room": set()}
        # Between a look at a queue's room and the write that takes of it, the caches do not show that it is
        # taken: one at a time. (Two leaders can still cross; the order of `Turn` mends that.)
        self._capacity_lock = asyncio.Lock()
        self._limiter = RetryLimiter()

    def waiting_for(self, what: WaitReason) -> Iterable[Key]:
        """The clusters that such news may concern."""
        return tuple(self._waiting[what])

    def waiting_for_nodes(self, before: Node | None, after: Node | None) -> Iterable[Key]:
        """The clusters that this news of a node may concern."""
        return self.waiting_for("nodes") if node_changed(before, after) else ()

    async def reconcile(self, key: Key) -> Result:
        for waiters in self._waiting.values():
            waiters.discard(key)
        cluster = self._view.clusters.get(key)
        for orphan in self._view.orphans(key, cluster):
            await self._requests.release_orphan(orphan, of=key, owners=RAY_CLUSTER, uid_label=CLUSTER_UID)
        if cluster is None:
            self._release_token(key)
            self._enqueue_waiters()
            return None
        decision = await self._decide_and_apply(cluster)
        for what in decision.waiting_on:
            self._waiting[what].add(key)
        return self._result(decision)

    async def _decide_and_apply(self, cluster: RayCluster) -> Decision:
        try:
            decision = await self._decide_and_apply_locked(cluster)
        except CreateRejected as rejected:
            # From a second look: something was written before the API server said no.
            snapshot = self._view.snapshot(cluster, now=self._clock())
            decision = after_rejection(snapshot, rejected)
            await self._act(decision, snapshot)
        if any(
            not isinstance(action, CreateTemplates | CreateRequest | EmitEvent) for action in decision.actions
        ):
            self._enqueue_waiters()
        return decision

    async def _decide_and_apply_locked(self, cluster: RayCluster) -> Decision:
        async with self._capacity_lock:
            snapshot = self._with_retry_delay(self._view.snapshot(cluster, now=self._clock()))
            decision = decide(snapshot)
            takes_capacity = any(isinstance(action, CreateRequest | Ungate) for action in decision.actions)
            if takes_capacity:
                self._limiter.consume(cluster.key)
                await self._act(decision, snapshot)
        if not takes_capacity:
            await self._act(decision, snapshot)
        return decision

    def _with_retry_delay(self, snapshot: ClusterSnapshot) -> ClusterSnapshot:
        try:
            wants_retry = any(snapshot.wants_retry for snapshot in snapshot.batch_snapshots)
        except ValueError:
            return snapshot  # The machine meets it too, and says so.
        if snapshot.is_over or not wants_retry:
            self._release_token(snapshot.cluster.key)
            return snapshot
        per_minute = (snapshot.policy or GangPolicy()).retry.per_minute
        return replace(snapshot, retry_delay=self._limiter.wait(snapshot.cluster.key, per_minute=per_minute))

    def _release_token(self, key: Key) -> None:
        """It does not try again, or not now: whoever gets its token looks when that is."""
        if (sooner := self._limiter.release(key)) is not None:
            self._enqueue(sooner)

    async def _act(self, decision: Decision, snapshot: ClusterSnapshot) -> None:
        await self._executor.run(
            decision.actions, cluster=snapshot.cluster, pod_group_demands=decision.pod_group_demands
        )

    def _enqueue_waiters(self) -> None:
        """Something was released or has passed: whoever waits for a turn or for room looks again."""
        for key in {*self._waiting["turn"], *self._waiting["room"]}:
            self._enqueue(key)

    def _result(self, decision: Decision) -> Result:
        wakes = [decision.requeue_at - self._clock()] if decision.requeue_at else []
        wakes += [POLL_INTERVAL] if decision.waiting_on else []
        return RequeueAfter(max(0.0, min(wakes).total_seconds())) if wakes else None
