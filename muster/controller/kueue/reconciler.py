"""One Workload: look, decide, act.

Decides only when to look again. What is looked at is view.py's, the decision decide.py's, the writes
executor.py's. Nothing is remembered here but who waits for whose news, and losing that costs seconds.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from muster.controller.gangs.actions import CreateRequest, CreateTemplates, EmitEvent
from muster.controller.gangs.create_errors import CreateRejected
from muster.controller.gangs.indexes import lease_of
from muster.controller.gangs.objects import Node
from muster.controller.gangs.rate_limit import RetryLimiter
from muster.controller.kube.resource import Key
from muster.controller.kueue.actions import Decision, Reactivate
from muster.controller.kueue.decide import after_rejection, decide
from muster.controller.kueue.executor import Executor
from muster.controller.kueue.objects import Workload
from muster.controller.kueue.snapshot import WorkloadSnapshot
from muster.controller.kueue.view import View, has_only_leases, leases_of
from muster.controller.kueue.waiters import Waiters
from muster.controller.runtime.clock import utc_now
from muster.controller.runtime.controller import RequeueAfter, Result
from muster.model.gangpolicy import GangPolicy

POLL_INTERVAL: Final = timedelta(seconds=10)
"""While a gang waits for room or for its turn, news may come in ways that name no key: look again this
often.
"""


class GangReconciler:
    """Reconciles Workloads by key. `enqueue` puts the key of another Workload into the queue."""

    def __init__(
        self,
        view: View,
        executor: Executor,
        *,
        enqueue: Callable[[Key], None],
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._view, self._executor, self._enqueue, self._clock = view, executor, enqueue, clock
        self._nodes, self._turn = Waiters(), set[Key]()
        # Whose turn it is may be asked by one split gang at a time: between its look and its write, the
        # cache does not show that it has asked. (Two leaders can still cross; turn_order.py mends that.)
        self._turn_lock = asyncio.Lock()
        self._limiter, self._retrying = RetryLimiter(), set[Key]()

    def waiting_for_nodes(self, before: Node | None, after: Node | None) -> Iterable[Key]:
        """The Workloads that this news of a node may concern."""
        node = after or before
        return self._nodes.affected_by(before, after, lease=lease_of(node)) if node else ()

    async def reconcile(self, key: Key) -> Result:
        workload = self._view.workloads.get(key)
        self._nodes.discard(key)
        self._turn.discard(key)
        self._retrying.discard(key)
        for orphan in self._view.orphans(key, workload):
            await self._executor.release_orphan(orphan, of=key)
        if workload is None:
            self._release_token(key)
            self._enqueue_waiters()
            return None
        decisions = [await self._reconcile_check(workload, check) for check in self._view.checks_of(workload)]
        if key not in self._retrying:
            self._release_token(key)
        return self._result(decisions)

    async def _reconcile_check(self, workload: Workload, check: str) -> Decision:
        if not self._view.is_in_turn_order(workload, check, now=self._clock()):
            return await self._decide_and_apply(workload, check)
        async with self._turn_lock:
            return await self._decide_and_apply(self._view.workloads.get(workload.key) or workload, check)

    async def _decide_and_apply(self, workload: Workload, check: str) -> Decision:
        snapshot = self._with_retry_delay(self._view.snapshot(workload, check, now=self._clock()))
        decision = decide(snapshot)
        if any(isinstance(action, Reactivate | CreateRequest) for action in decision.actions):
            self._limiter.consume(workload.key)
        if decision.waiting_on == "nodes":
            only = leases_of(snapshot) if has_only_leases(snapshot) else frozenset[str]()
            self._nodes.add(workload.key, only)
        elif decision.waiting_on == "turn":
            self._turn.add(workload.key)
        try:
            await self._executor.run(
                decision.actions, workload=workload, check=check, flavors=snapshot.flavors
            )
        except CreateRejected as rejected:
            decision = await self._fail_attempt(workload, check, rejected)
        if any(
            not isinstance(action, CreateTemplates | CreateRequest | EmitEvent) for action in decision.actions
        ):
            self._enqueue_waiters()
        return decision

    async def _fail_attempt(self, workload: Workload, check: str, rejected: CreateRejected) -> Decision:
        """From a second look: something was written before the API server said no."""
        latest = self._view.workloads.get(workload.key) or workload
        snapshot = self._view.snapshot(latest, check, now=self._clock())
        decision = after_rejection(snapshot, rejected)
        await self._executor.run(decision.actions, workload=latest, check=check, flavors=snapshot.flavors)
        return decision

    def _with_retry_delay(self, snapshot: WorkloadSnapshot) -> WorkloadSnapshot:
        if not snapshot.wants_retry:
            return snapshot
        key = snapshot.workload.key
        self._retrying.add(key)
        per_minute = (snapshot.policy or GangPolicy()).retry.per_minute
        return replace(snapshot, retry_delay=self._limiter.wait(key, per_minute=per_minute))

    def _release_token(self, key: Key) -> None:
        """It does not try again, or not now: whoever gets its token looks when that is."""
        if (sooner := self._limiter.release(key)) is not None:
            self._enqueue(sooner)

    def _enqueue_waiters(self) -> None:
        """Something was released or has become whole: whoever waits for a turn looks whether it is theirs."""
        for key in tuple(self._turn):
            self._enqueue(key)

    def _result(self, decisions: Sequence[Decision]) -> Result:
        wakes = [decision.requeue_at - self._clock() for decision in decisions if decision.requeue_at]
        wakes += [POLL_INTERVAL for decision in decisions if decision.waiting_on]
        return RequeueAfter(max(0.0, min(wakes).total_seconds())) if wakes else None
