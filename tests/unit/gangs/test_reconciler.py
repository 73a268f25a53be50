"""The reconcile loop that both schedulers share."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from muster.controller.gangs.actions import Delete
from muster.controller.gangs.create_errors import CreateRejected
from muster.controller.gangs.reconciler import GangReconciler
from muster.controller.kube.resource import Key
from muster.controller.runtime.controller import RequeueAfter
from muster.model.gangpolicy import GangPolicy

NOW = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
A, B = Key("ns", "a"), Key("ns", "b")
DELETION = Delete(kind="Pod", namespace="ns", name="x", uid="u")


@dataclass(frozen=True)
class Decided:
    actions: tuple[object, ...] = ()
    requeue_at: datetime | None = None
    waits_for_nodes: bool = False
    begins_attempt: bool = False
    is_final: bool = False


@dataclass(frozen=True)
class Seen:
    key: Key
    wants_retry: bool = False
    delay: timedelta = timedelta(0)
    policy: GangPolicy | None = None

    def with_retry_delay(self, delay: timedelta) -> Seen:
        return replace(self, delay=delay)


@dataclass
class Fake:
    """`decided`: what is decided of each key, until it is applied, where `settles`; a key that is not there
    is gone.
    """

    decided: dict[Key, Decided] = field(default_factory=dict)
    rejects: bool = False
    settles: bool = True
    log: list[str] = field(default_factory=list)

    def targets(self, key: Key) -> Sequence[Key] | None:
        return [key] if key in self.decided else None

    def load(self, target: Key, *, now: datetime) -> Seen:
        self.log.append(f"load {target.name}")
        return Seen(target)

    def decide(self, snapshot: Seen) -> Decided:
        return self.decided[snapshot.key]

    def after_rejection(self, snapshot: Seen, rejected: CreateRejected) -> Decided:
        self.log.append(f"end {rejected.attempt}")
        self.rejects = False
        return Decided(requeue_at=NOW)

    async def apply(self, decision: Decided, snapshot: Seen) -> None:
        self.log.append(f"apply {snapshot.key.name}")
        if self.rejects:
            raise CreateRejected("ProvisioningRequest", attempt="one", reason="Forbidden", message="no")
        await asyncio.sleep(0)
        self.log.append(f"applied {snapshot.key.name}")
        if self.settles:
            self.decided[snapshot.key] = replace(self.decided[snapshot.key], actions=())

    async def release_orphans(self, key: Key) -> None:
        self.log.append(f"orphans {key.name}")

    def leases(self, snapshot: Seen) -> frozenset[str]:
        return frozenset()


def reconciler(hooks: Fake, enqueued: list[Key]) -> GangReconciler[Key, Seen, Decided]:
    return GangReconciler(hooks, enqueue=enqueued.append, clock=lambda: NOW)


async def _both(hooks: Fake) -> list[str]:
    gangs = reconciler(hooks, [])
    await asyncio.gather(gangs.reconcile(A), gangs.reconcile(B))
    return [line for line in hooks.log if not line.startswith("orphans")]


async def test_a_gang_whose_writes_take_long_holds_up_no_other() -> None:
    acts = Decided(actions=(DELETION,), begins_attempt=True)
    lines = await _both(Fake({A: acts, B: acts}))
    assert lines.index("load b") < lines.index("applied a")


async def test_a_rejected_create_ends_the_attempt_from_a_new_snapshot() -> None:
    hooks = Fake({A: Decided(actions=(DELETION,), begins_attempt=True)}, rejects=True)
    result = await reconciler(hooks, []).reconcile(A)
    assert hooks.log == ["orphans a", "load a", "apply a", "load a", "end one", "apply a", "applied a"]
    assert result == RequeueAfter(0.0)


async def test_a_gang_is_decided_again_until_nothing_is_left_to_do() -> None:
    """What it writes is in the caches at once: it needs no second turn in the queue."""
    hooks, enqueued = Fake({A: Decided(actions=(DELETION,), requeue_at=NOW)}), list[Key]()
    assert await reconciler(hooks, enqueued).reconcile(A) == RequeueAfter(0.0)
    assert hooks.log == ["orphans a", "load a", "apply a", "applied a", "load a"]
    assert enqueued == []


async def test_a_decision_that_nothing_can_follow_is_the_last() -> None:
    hooks = Fake({A: Decided(actions=(DELETION,), requeue_at=NOW, is_final=True)})
    assert await reconciler(hooks, []).reconcile(A) == RequeueAfter(0.0)
    assert hooks.log == ["orphans a", "load a", "apply a", "applied a"]


async def test_what_the_caches_do_not_show_yet_is_not_written_twice() -> None:
    hooks = Fake({A: Decided(actions=(DELETION,))}, settles=False)
    assert await reconciler(hooks, []).reconcile(A) is None
    assert hooks.log.count("applied a") == 1
