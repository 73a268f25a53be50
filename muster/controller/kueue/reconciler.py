"""One Workload: look, decide, act.

Decides only when to look again. What is looked at is view.py's, the decision machine.py's, the writes
executor.py's. Nothing is remembered here but who waits for whose news, and losing that costs seconds.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from muster.controller.gangs.actions import CreateRequest, CreateTemplates, Tell
from muster.controller.gangs.create_errors import Denied
from muster.controller.gangs.indexes import lease_of
from muster.controller.gangs.objects import Node
from muster.controller.gangs.rate_limit import Pace
from muster.controller.kube.resource import Key
from muster.controller.kueue.actions import Decision, StepIn
from muster.controller.kueue.decide import after_denial, decide
from muster.controller.kueue.executor import Executor
from muster.controller.kueue.objects import Workload
from muster.controller.kueue.snapshot import Situation
from muster.controller.kueue.view import View, has_only_leases, leases_of
from muster.controller.kueue.waiters import Waiters
from muster.controller.runtime.clock import utc_now
from muster.controller.runtime.controller import RequeueAfter, Result
from muster.model.gangpolicy import GangPolicy

GLANCE: Final = timedelta(seconds=10)
"""While a gang waits for room or for its turn, news may come in ways that name no key: look again this
often.
"""


class GangReconciler:
    """Reconciles Workloads by key. `wake` puts the key of another Workload into the queue."""

    def __init__(
        self,
        view: View,
        executor: Executor,
        *,
        wake: Callable[[Key], None],
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._view, self._executor, self._wake, self._clock = view, executor, wake, clock
        self._nodes, self._turn = Waiters(), set[Key]()
        # Whose turn it is may be asked by one split gang at a time: between its look and its write, the
        # cache does not show that it has asked. (Two leaders can still cross; line.py mends that.)
        self._line = asyncio.Lock()
        self._pace, self._back = Pace(), set[Key]()

    def waiting_for_nodes(self, before: Node | None, after: Node | None) -> Iterable[Key]:
        """The Workloads that this news of a node may concern."""
        node = after or before
        return self._nodes.concerned(before, after, lease=lease_of(node)) if node else ()

    async def reconcile(self, key: Key) -> Result:
        workload = self._view.workloads.get(key)
        self._nodes.discard(key)
        self._turn.discard(key)
        self._back.discard(key)
        for orphan in self._view.orphans(key, workload):
            await self._executor.release_orphan(orphan, of=key)
        if workload is None:
            self._give_back(key)
            self._call_next()
            return None
        decisions = [await self._once(workload, check) for check in self._view.checks_of(workload)]
        if key not in self._back:
            self._give_back(key)
        return self._again(decisions)

    async def _once(self, workload: Workload, check: str) -> Decision:
        if not self._view.stands_in_line(workload, check, now=self._clock()):
            return await self._look_and_act(workload, check)
        async with self._line:
            return await self._look_and_act(self._view.workloads.get(workload.key) or workload, check)

    async def _look_and_act(self, workload: Workload, check: str) -> Decision:
        situation = self._paced(self._view.situation(workload, check, now=self._clock()))
        decision = decide(situation)
        if any(isinstance(action, StepIn | CreateRequest) for action in decision.actions):
            self._pace.taken(workload.key)
        if decision.waits_for == "nodes":
            only = leases_of(situation) if has_only_leases(situation) else frozenset[str]()
            self._nodes.add(workload.key, only)
        elif decision.waits_for == "turn":
            self._turn.add(workload.key)
        try:
            await self._executor.run(
                decision.actions, workload=workload, check=check, flavors=situation.flavors
            )
        except Denied as denied:
            decision = await self._end(workload, check, denied)
        if any(not isinstance(action, CreateTemplates | CreateRequest | Tell) for action in decision.actions):
            self._call_next()
        return decision

    async def _end(self, workload: Workload, check: str, denied: Denied) -> Decision:
        """From a second look: something was written before the API server said no."""
        latest = self._view.workloads.get(workload.key) or workload
        situation = self._view.situation(latest, check, now=self._clock())
        decision = after_denial(situation, denied)
        await self._executor.run(decision.actions, workload=latest, check=check, flavors=situation.flavors)
        return decision

    def _paced(self, situation: Situation) -> Situation:
        if not situation.wants_back:
            return situation
        key = situation.workload.key
        self._back.add(key)
        per_minute = (situation.policy or GangPolicy()).retry.per_minute
        return replace(situation, pace=self._pace.wait(key, per_minute=per_minute))

    def _give_back(self, key: Key) -> None:
        """It does not try again, or not now: whoever gets its token looks when that is."""
        if (sooner := self._pace.give_back(key)) is not None:
            self._wake(sooner)

    def _call_next(self) -> None:
        """Something was released or has become whole: whoever waits for a turn looks whether it is theirs."""
        for key in tuple(self._turn):
            self._wake(key)

    def _again(self, decisions: Sequence[Decision]) -> Result:
        wakes = [decision.wake - self._clock() for decision in decisions if decision.wake]
        wakes += [GLANCE for decision in decisions if decision.waits_for]
        return RequeueAfter(max(0.0, min(wakes).total_seconds())) if wakes else None
