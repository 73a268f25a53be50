"""One gang at a time: load a snapshot, decide, apply. The loop of both schedulers.

Responsible for when a key is reconciled again and for the rate of retries. The three hooks are each
scheduler's: `load` reads the caches, `decide` is pure, `apply` writes. No lock is held across a call. Keeps
in memory only which gang waits for which nodes; losing that costs seconds.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final, Generic, Protocol, Self, TypeVar

from muster.controller.gangs.create_errors import CreateRejected
from muster.controller.gangs.indexes import lease_of
from muster.controller.gangs.objects import Node
from muster.controller.gangs.rate_limit import RetryLimiter
from muster.controller.gangs.waiters import Waiters
from muster.controller.kube.resource import Key
from muster.controller.runtime.clock import utc_now
from muster.controller.runtime.controller import RequeueAfter, Result
from muster.model.gangpolicy import GangPolicy

POLL_INTERVAL: Final = timedelta(seconds=10)
"""While a gang waits for others, some changes name no key: it is reconciled this often."""

STEPS: Final = 8
"""Decisions of one reconcile. A gang that has more to do comes back through the queue, behind the others."""


class Snapshot(Protocol):
    """What the loop reads of a scheduler's snapshot."""

    @property
    def policy(self) -> GangPolicy | None: ...

    @property
    def wants_retry(self) -> bool:
        """Its backoff has ended and its next attempt has not begun."""

    def with_retry_delay(self, delay: timedelta) -> Self:
        """The same, where its next attempt has to wait for those of other gangs."""


class Decision(Protocol):
    """What the loop reads of a scheduler's decision."""

    @property
    def actions(self) -> Sequence[object]: ...

    @property
    def requeue_at(self) -> datetime | None: ...

    @property
    def waits_for_nodes(self) -> bool: ...

    @property
    def is_final(self) -> bool:
        """Once it is carried out nothing is left to decide until something changes."""

    @property
    def begins_attempt(self) -> bool:
        """It requests capacity or quota: it uses the gang's retry token."""


T = TypeVar("T")
S = TypeVar("S", bound=Snapshot)
D = TypeVar("D", bound=Decision)


class Hooks(Protocol[T, S, D]):
    """What a scheduler brings to the loop. A key has one or more targets, each decided by itself."""

    def targets(self, key: Key) -> Sequence[T] | None:
        """None where the object of the key is gone."""

    def load(self, target: T, *, now: datetime) -> S: ...

    def decide(self, snapshot: S) -> D: ...

    def after_rejection(self, snapshot: S, rejected: CreateRejected) -> D:
        """The end of the attempt whose create was rejected."""

    async def apply(self, decision: D, snapshot: S) -> None:
        """Begins at once, without giving others a turn: what the decision takes counts from then on."""

    async def release_orphans(self, key: Key) -> None:
        """Delete what earlier objects of this name left."""

    def leases(self, snapshot: S) -> frozenset[str]:
        """The leases whose nodes alone can concern it; empty where any node can."""


class GangReconciler(Generic[T, S, D]):
    """Reconciles gangs by key. `enqueue` puts the key of another gang into the queue."""

    def __init__(
        self,
        hooks: Hooks[T, S, D],
        *,
        enqueue: Callable[[Key], None],
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._hooks, self._enqueue, self._clock = hooks, enqueue, clock
        self._nodes = Waiters()
        self.applied = 0
        """Decisions that were carried out, or tried."""
        self._limiter, self._retrying = RetryLimiter(), set[Key]()

    def waiting_for_nodes(self, before: Node | None, after: Node | None) -> Iterable[Key]:
        """The gangs that this change of a node may concern."""
        node = after or before
        return self._nodes.affected_by(before, after, lease=lease_of(node)) if node else ()

    async def reconcile(self, key: Key) -> Result:
        self._nodes.discard(key)
        self._retrying.discard(key)
        await self._hooks.release_orphans(key)
        targets = self._hooks.targets(key)
        if targets is None:
            self._release_token(key)
            return None
        decisions = [await self._reconcile_target(key, target) for target in targets]
        if key not in self._retrying:
            self._release_token(key)
        return self._result(decisions)

    async def _reconcile_target(self, key: Key, target: T) -> D:
        """Decide until nothing is left to do. What it writes is in the caches at once and does not bring
        its key back. A decision that comes a second time in a row waits for what the watch brings.
        """
        done: Sequence[object] = ()
        for _ in range(STEPS):
            decision = await self._step(key, target, done)
            if not decision.actions or decision.actions == done:
                return decision
            done = decision.actions
            if decision.is_final:
                return decision
        self._enqueue(key)
        return decision

    async def _step(self, key: Key, target: T, done: Sequence[object]) -> D:
        try:
            snapshot, decision = self._decide(key, target)
            if decision.actions not in ((), done):
                await self._apply(decision, snapshot)
            return decision
        except CreateRejected as rejected:
            # From a new snapshot: objects may have been written before the API server rejected one.
            snapshot = self._hooks.load(target, now=self._clock())
            decision = self._hooks.after_rejection(snapshot, rejected)
            await self._apply(decision, snapshot)
            return decision

    async def _apply(self, decision: D, snapshot: S) -> None:
        self.applied += 1
        await self._hooks.apply(decision, snapshot)

    def _decide(self, key: Key, target: T) -> tuple[S, D]:
        snapshot = self._with_retry_delay(key, self._hooks.load(target, now=self._clock()))
        decision = self._hooks.decide(snapshot)
        if decision.begins_attempt:
            self._enqueue_sooner(self._limiter.consume(key))
        if decision.waits_for_nodes:
            self._nodes.add(key, self._hooks.leases(snapshot))
        return snapshot, decision

    def _with_retry_delay(self, key: Key, snapshot: S) -> S:
        if not snapshot.wants_retry:
            return snapshot
        self._retrying.add(key)
        per_minute = (snapshot.policy or GangPolicy()).retry.per_minute
        return snapshot.with_retry_delay(self._limiter.wait(key, per_minute=per_minute))

    def _release_token(self, key: Key) -> None:
        """It does not retry now."""
        self._enqueue_sooner(self._limiter.release(key))

    def _enqueue_sooner(self, key: Key | None) -> None:
        if key is not None:
            self._enqueue(key)

    def _result(self, decisions: Sequence[D]) -> Result:
        delays = [decision.requeue_at - self._clock() for decision in decisions if decision.requeue_at]
        delays += [POLL_INTERVAL for decision in decisions if decision.waits_for_nodes]
        return RequeueAfter(max(0.0, min(delays).total_seconds())) if delays else None
