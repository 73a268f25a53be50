"""A process looks after one scheduler's gangs, and ends when the stack gets the other."""

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from muster.controller.gangs.objects import GangPolicyObject
from muster.controller.kube.client import Client
from muster.controller.kube.errors import KubeError, NotFound, Status, TransportError
from muster.controller.kube.resource import ObjectMeta
from muster.controller.runtime.informer import Informer
from muster.controller.runtime.store import Store
from muster.controller.schedulers import SchedulerChanged, _until_changed, is_kais, schedules_with_kai
from tests.unit.controller_runtime.virtual import virtual


def policy(version: int, **spec: object) -> GangPolicyObject:
    meta = ObjectMeta(name="default", uid="u", resource_version=str(version))
    return GangPolicyObject(metadata=meta, spec=dict(spec))


def test_the_policy_says_whose_gangs_there_are() -> None:
    assert schedules_with_kai(policy(1, kai={}))
    assert not schedules_with_kai(policy(1))
    assert not schedules_with_kai(policy(1, kai=None))


class _Server:
    """Answers with these, one after another, and with the last for ever."""

    def __init__(self, *answers: GangPolicyObject | KubeError) -> None:
        self._answers = list(answers)

    async def get(self, *_: object) -> GangPolicyObject:
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, KubeError):
            raise answer
        return answer


def _asked(*answers: GangPolicyObject | KubeError) -> bool:
    return virtual(is_kais(cast(Client, _Server(*answers))))


def test_a_server_that_answers_later_is_waited_for_and_one_that_never_does_is_not() -> None:
    away = TransportError("connection refused")
    assert _asked(away, away, away, policy(1, kai={}))
    assert not _asked(away, NotFound(Status(code=404)))
    with pytest.raises(TransportError):
        _asked(away)


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
