"""What is said and given back when the controller is removed for good.

Decides, for a gang at one moment, how it is left to a cluster without us. Whoever runs, runs on. Whoever
gathers capacity gives it back, because nobody would: its check says why it waits and what helps. Whoever
waits outside the quota is let back in, because nobody else would activate it. The checks become inactive, so
that Kueue sends us nobody and says so on the queue. A controller that comes back finds nothing that it could
not have left itself. Leaves whether this end is a removal to muster.controller.runtime.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Final

from muster.controller.gangs.actions import Tell
from muster.controller.gangs.assembly import everything
from muster.controller.gangs.objects import Condition
from muster.controller.gangs.policies import tell
from muster.controller.gangs.shutdown import REASON, Farewell
from muster.controller.kube.client import Client
from muster.controller.kube.resource import Key
from muster.controller.kueue.actions import Action, State, StepIn
from muster.controller.kueue.check_state import say
from muster.controller.kueue.checks import ACTIVE, is_ours
from muster.controller.kueue.executor import Executor
from muster.controller.kueue.objects import ADMISSION_CHECK, AdmissionCheck
from muster.controller.kueue.snapshot import Situation
from muster.controller.kueue.view import View
from muster.controller.runtime.informer import Informer

_FIX: Final = "install it again, or take the check off the ClusterQueue"


def parting(now_is: Situation) -> tuple[Action, ...]:
    """The last that we do for this gang."""
    past = now_is.past
    if now_is.is_over or now_is.runs:
        return ()
    released = everything(now_is)
    if not now_is.workload.spec.active:
        is_ours_to_wake = past.retry_at is not None and not (past.refused or past.grows)
        woken = (StepIn(history=replace(past, retry_at=None)),) if is_ours_to_wake else ()
        return (*released, *woken)
    if now_is.entry is None or now_is.entry.state in (State.RETRY, State.REJECTED) or not now_is.may_act:
        return released
    message = f"the gang-admission controller has been removed: nobody asks for nodes any more. Fix: {_FIX}"
    told = Tell(kind="Warning", reason=REASON, message=message)
    return (*released, *say(now_is, message), told)


def farewell(
    client: Client,
    checks: Informer[AdmissionCheck],
    view: View,
    executor: Executor,
    *,
    clock: Callable[[], datetime],
) -> Farewell:
    """Says it: first on the checks, then to every gang that waits."""

    async def close() -> None:
        message = f"the gang-admission controller has been removed; {_FIX}"
        closed = Condition(type=ACTIVE, status="False", reason=REASON, message=message)
        ours = [check for check in checks.store if is_ours(check)]
        told = (tell(client, ADMISSION_CHECK, each, each.status, closed, now=clock()) for each in ours)
        await asyncio.gather(*told)

    def waiting() -> Iterable[Key]:
        """Who waits outside the quota first: nobody else would ever wake them, and the rest loses less."""
        ours = (workload for workload in view.workloads.store if view.checks_of(workload))
        return [workload.key for workload in sorted(ours, key=lambda workload: workload.spec.active)]

    async def part(key: Key) -> None:
        workload = view.workloads.get(key)
        if workload is None:
            return
        for check in view.checks_of(workload):
            now_is = view.situation(workload, check, now=clock())
            actions = parting(now_is)
            await executor.run(actions, workload=workload, check=check, flavors=now_is.flavors)

    return Farewell(close=close, waiting=waiting, part=part)
