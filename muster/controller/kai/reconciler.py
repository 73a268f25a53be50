"""One Ray cluster: look, decide, act.

Decides only when to look again. What is looked at is view.py's, the decision machine.py's, the writes
executor.py's. Nothing is remembered here but who waits for whose news, and losing that costs seconds.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from muster.controller.gangs.actions import CreateRequest, CreateTemplates, Tell, WaitsFor
from muster.controller.gangs.create_errors import Denied
from muster.controller.gangs.node_predicates import is_news
from muster.controller.gangs.objects import Node
from muster.controller.gangs.rate_limit import Pace
from muster.controller.gangs.requests import Requests
from muster.controller.kai.actions import Decision, Lift
from muster.controller.kai.decide import after_denial, decide
from muster.controller.kai.executor import Executor
from muster.controller.kai.labels import CLUSTER_UID
from muster.controller.kai.objects import RAY_CLUSTER, RayCluster
from muster.controller.kai.snapshot import Scene
from muster.controller.kai.view import View
from muster.controller.kube.resource import Key
from muster.controller.runtime.clock import utc_now
from muster.controller.runtime.controller import RequeueAfter, Result
from muster.model.gangpolicy import GangPolicy

GLANCE: Final = timedelta(seconds=10)
"""While a gang waits for others, news may come in ways that name no key: look again this often."""


class GangReconciler:
    """Reconciles Ray clusters by key. `wake` puts the key of another one into the queue."""

    def __init__(
        self,
        view: View,
        executor: Executor,
        requests: Requests,
        *,
        wake: Callable[[Key], None],
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._view, self._executor, self._requests = view, executor, requests
        self._wake, self._clock = wake, clock
        self._waiting: dict[WaitsFor, set[Key]] = {"nodes": set(), "turn": set(), "room": set()}
        # Between a look at a queue's room and the write that takes of it, the caches do not show that it is
        # taken: one at a time. (Two leaders can still cross; the order of `Turn` mends that.)
        self._taking = asyncio.Lock()
        self._pace = Pace()

    def waiting_for(self, what: WaitsFor) -> Iterable[Key]:
        """The clusters that such news may concern."""
        return tuple(self._waiting[what])

    def waiting_for_nodes(self, before: Node | None, after: Node | None) -> Iterable[Key]:
        """The clusters that this news of a node may concern."""
        return self.waiting_for("nodes") if is_news(before, after) else ()

    async def reconcile(self, key: Key) -> Result:
        for waiters in self._waiting.values():
            waiters.discard(key)
        cluster = self._view.clusters.get(key)
        for orphan in self._view.orphans(key, cluster):
            await self._requests.release_orphan(orphan, of=key, owners=RAY_CLUSTER, uid_label=CLUSTER_UID)
        if cluster is None:
            self._give_back(key)
            self._call_next()
            return None
        decision = await self._look_and_act(cluster)
        for what in decision.waits_for:
            self._waiting[what].add(key)
        return self._again(decision)

    async def _look_and_act(self, cluster: RayCluster) -> Decision:
        try:
            decision = await self._take_or_act(cluster)
        except Denied as denied:
            # From a second look: something was written before the API server said no.
            scene = self._view.scene(cluster, now=self._clock())
            decision = after_denial(scene, denied)
            await self._act(decision, scene)
        if any(not isinstance(action, CreateTemplates | CreateRequest | Tell) for action in decision.actions):
            self._call_next()
        return decision

    async def _take_or_act(self, cluster: RayCluster) -> Decision:
        async with self._taking:
            scene = self._paced(self._view.scene(cluster, now=self._clock()))
            decision = decide(scene)
            takes = any(isinstance(action, CreateRequest | Lift) for action in decision.actions)
            if takes:
                self._pace.taken(cluster.key)
                await self._act(decision, scene)
        if not takes:
            await self._act(decision, scene)
        return decision

    def _paced(self, scene: Scene) -> Scene:
        try:
            wants_back = any(situation.wants_back for situation in scene.situations)
        except ValueError:
            return scene  # The machine meets it too, and says so.
        if scene.is_over or not wants_back:
            self._give_back(scene.cluster.key)
            return scene
        per_minute = (scene.policy or GangPolicy()).retry.per_minute
        return replace(scene, pace=self._pace.wait(scene.cluster.key, per_minute=per_minute))

    def _give_back(self, key: Key) -> None:
        """It does not try again, or not now: whoever gets its token looks when that is."""
        if (sooner := self._pace.give_back(key)) is not None:
            self._wake(sooner)

    async def _act(self, decision: Decision, scene: Scene) -> None:
        await self._executor.run(decision.actions, cluster=scene.cluster, pieces=decision.pieces)

    def _call_next(self) -> None:
        """Something was released or has passed: whoever waits for a turn or for room looks again."""
        for key in {*self._waiting["turn"], *self._waiting["room"]}:
            self._wake(key)

    def _again(self, decision: Decision) -> Result:
        wakes = [decision.wake - self._clock()] if decision.wake else []
        wakes += [GLANCE] if decision.waits_for else []
        return RequeueAfter(max(0.0, min(wakes).total_seconds())) if wakes else None
