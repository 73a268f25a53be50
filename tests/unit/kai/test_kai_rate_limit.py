"""KAI gangs that failed together come back as a stream, through the reconciler itself."""

import asyncio
import dataclasses
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime, timedelta
from typing import Any, cast

import msgspec
import pytest

from muster.controller.gangs.rate_limit import RetryLimiter
from muster.controller.gangs.reconciler import GangReconciler
from muster.controller.gangs.requests import Requests
from muster.controller.kai.actions import Action, Decision, Ungate
from muster.controller.kai.executor import Executor
from muster.controller.kai.hooks import RayClusterHooks
from muster.controller.kai.objects import GangOwner
from muster.controller.kai.pod_groups import PodGroupDemand
from muster.controller.kai.snapshot import ClusterSnapshot
from muster.controller.kai.view import View
from muster.controller.kube.resource import Key
from muster.controller.runtime.controller import RequeueAfter
from muster.model.gangpolicy import FlavorPolicy, RetryPolicy
from tests.unit.gangs.paper import START
from tests.unit.kai.kai_world import POLICY, Group, World, queue

replace = msgspec.structs.replace
GANGS = 8
PER_MINUTE = 6
STEP = timedelta(seconds=10)


@dataclasses.dataclass
class Caches:
    """The world as the reconciler reads and writes it."""

    world: World

    @property
    def gangs(self) -> "Caches":
        return self

    def get(self, key: Key) -> GangOwner | None:
        return self.world.clusters.get(key.name)

    def orphans(self, key: Key) -> list[object]:
        return []

    @property
    def gathering(self) -> "Caches":
        return self

    def decided(self, snapshot: ClusterSnapshot, decision: Decision) -> None:
        """What it waits for is found by looking."""

    def applying(self, snapshot: ClusterSnapshot, decision: Decision) -> AbstractContextManager[None]:
        return nullcontext()

    def snapshot(self, cluster: GangOwner, *, now: datetime) -> ClusterSnapshot:
        return self.world.snapshot(cluster.metadata.name)

    async def run(
        self, actions: Sequence[Action], *, cluster: GangOwner, pod_group_demands: Sequence[PodGroupDemand]
    ) -> None:
        for action in actions:
            self.world.carry_out(cluster.metadata.name, action)


def failed_together(per_minute: int) -> World:
    policy = dataclasses.replace(POLICY, retry=RetryPolicy(per_minute=per_minute, deadline=timedelta(days=1)))
    here = World(policy=policy, stock={"l4": 0})
    here.queues = {"team-a": queue("team-a", quota=GANGS)}
    for number in range(GANGS):
        here.submit(f"gang-{number:02}", {"headgroup": Group("l4")})
    here.tick()
    assert len(here.requests) == GANGS, "the first request of each is not bounded"
    for name in here.requests:
        here.answer(name, "Failed", "OUT_OF_RESOURCES")
    here.settle()
    assert here.requests == {}
    return here


def paced(here: World, wake: Callable[[Key], None] = lambda _: None) -> GangReconciler[Any, Any, Any]:
    caches = Caches(here)
    view, hands, requests = cast(View, caches), cast(Executor, caches), cast(Requests, None)
    reconciler = GangReconciler(RayClusterHooks(view, hands, requests), enqueue=wake, clock=lambda: here.now)
    reconciler._limiter = RetryLimiter(lambda: (here.now - START).total_seconds())
    return reconciler


def come_back(here: World, minutes: int) -> list[datetime]:
    """When each of them asked again."""
    reconciler = paced(here)
    came: list[datetime] = []

    async def all_along() -> None:
        while here.now < START + timedelta(minutes=minutes):
            before = len(here.requests)
            for name in here.clusters:
                await reconciler.reconcile(Key("ns", name))
            came.extend([here.now] * (len(here.requests) - before))
            here.now += STEP

    asyncio.run(all_along())
    return came


def test_gangs_that_failed_together_ask_again_at_the_rate_of_the_policy() -> None:
    came = come_back(failed_together(PER_MINUTE), minutes=4)
    assert len(came) == GANGS, "and all of them do"
    for first, moment in enumerate(came):
        in_time = sum(other < moment + timedelta(minutes=1) for other in came[first:])
        assert in_time <= PER_MINUTE + 1, f"{in_time} within a minute of {moment}"


@pytest.mark.parametrize("is_deleted", [True, False])
def test_a_deleted_cluster_releases_its_token_to_the_next(is_deleted: bool) -> None:
    here, woken = failed_together(PER_MINUTE), list[Key]()
    reconciler = paced(here, woken.append)
    here.now += timedelta(hours=1)
    everybody = [Key("ns", name) for name in here.clusters]
    held = here.clusters[everybody[1].name]

    async def all_once() -> None:
        for key in everybody:
            await reconciler.reconcile(key)
        if is_deleted:
            del here.clusters[held.metadata.name]
        else:
            ending = replace(held.metadata, deletion_timestamp=here.now)
            here.clusters[held.metadata.name] = replace(held, metadata=ending)
        await reconciler.reconcile(held.key)

    asyncio.run(all_once())
    assert woken == [everybody[2]], "it looks again before its old token comes"


def test_without_a_bound_they_come_when_their_pause_is_over() -> None:
    came = come_back(failed_together(0), minutes=4)
    assert len(came) == GANGS
    assert max(came) - min(came) < timedelta(minutes=1)


class Lagging(World):
    """One pod is gone, and no watch has shown it: each write to it is in vain."""

    def write(self, name: str, action: object) -> None:
        if not isinstance(action, Ungate) or action.pod.metadata.name != min(self.pods):
            super().write(name, action)


def test_a_pod_that_is_gone_before_the_watch_shows_it_is_not_written_to_without_a_pause() -> None:
    """Each pod of a Deployment is a gang, and the second waits for what the first writes."""
    there = FlavorPolicy(name="l4", verify_nodes=False, gpus_per_node=1)
    here = Lagging(policy=dataclasses.replace(POLICY, flavors=(there,)))
    here.queues = {"team-a": queue("team-a", quota=2)}
    here.submit("a", {"0": Group("l4"), "1": Group("l4")}, kind="Deployment")
    here.kuberay()
    result = asyncio.run(paced(here).reconcile(Key("ns", "a")))
    assert isinstance(result, RequeueAfter)
    assert result.seconds >= 1
