"""A process looks after one scheduler's gangs, and ends when the stack gets the other."""

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from controller.gangs.objects import GangPolicyObject
from controller.kube.resource import ObjectMeta
from controller.runtime.informer import Informer
from controller.runtime.store import Store
from controller.schedulers import SchedulerChanged, _until_changed, schedules_with_kai


def policy(version: int, **spec: object) -> GangPolicyObject:
    meta = ObjectMeta(name="default", uid="u", resource_version=str(version))
    return GangPolicyObject(metadata=meta, spec=dict(spec))


def test_the_policy_says_whose_gangs_there_are() -> None:
    assert schedules_with_kai(policy(1, kai={}))
    assert not schedules_with_kai(policy(1))
    assert not schedules_with_kai(policy(1, kai=None))


async def test_the_process_ends_when_the_stack_gets_another_scheduler_and_not_for_other_news() -> None:
    store: Store[GangPolicyObject] = Store()
    policies = cast(Informer[GangPolicyObject], SimpleNamespace(store=store))
    watching = asyncio.create_task(_until_changed(policies, False))
    await asyncio.sleep(0)
    store.put(policy(1))
    store.put(policy(2, onStaggered="release"))
    await asyncio.sleep(0)
    assert not watching.done()
    store.put(policy(3, kai={"overQuota": "deny"}))
    with pytest.raises(SchedulerChanged, match="KAI now and not of Kueue"):
        await watching
