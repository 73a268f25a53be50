"""What is said and given back when the controller is removed for good.

Decides, for a gang at one moment, how it is left to a cluster without us. Whoever runs, runs on. Whoever
gathers capacity gives it back, because nobody would: its check says why it waits and what helps. Whoever
waits outside the quota is let back in, because nobody else would activate it. The checks become inactive, so
that Kueue sends us nobody and says so on the queue. A controller that comes back finds nothing that it could
not have left itself. Leaves whether this end is a removal to controller.runtime.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Final

import structlog

from controller.admission.actions import Action, State, StepIn
from controller.admission.checks import ACTIVE, is_ours
from controller.admission.entry import say
from controller.admission.executor import Executor
from controller.admission.objects import ADMISSION_CHECK, AdmissionCheck, Workload
from controller.admission.situation import Situation
from controller.admission.view import View
from controller.gangs.actions import Tell
from controller.gangs.assembly import everything
from controller.gangs.objects import Condition
from controller.gangs.policies import tell
from controller.gangs.requests import StaleDecision
from controller.kube.client import Client
from controller.kube.errors import KubeError
from controller.runtime.informer import Informer

REASON: Final = "ControllerRemoved"
AT_A_TIME: Final = 16
TRIES: Final = 3

_FIX: Final = "install it again, or take the check off the ClusterQueue"


def parting(now_is: Situation) -> tuple[Action, ...]:
    """The last that we do for this gang."""
    past = now_is.past
    if now_is.is_over or now_is.runs:
        return ()
    released = everything(now_is)
    if not now_is.workload.spec.active:
        is_ours_to_wake = past.retry_at is not None and not past.refused
        woken = (StepIn(history=replace(past, retry_at=None)),) if is_ours_to_wake else ()
        return (*released, *woken)
    if now_is.entry is None or now_is.entry.state in (State.RETRY, State.REJECTED) or not now_is.may_act:
        return released
    message = f"the gang-admission controller has been removed: nobody asks for nodes any more. Fix: {_FIX}"
    told = Tell(kind="Warning", reason=REASON, message=message)
    return (*released, *say(now_is, message), told)


class Farewell:
    """Says it: first on the checks, then to every gang that waits."""

    def __init__(
        self,
        client: Client,
        checks: Informer[AdmissionCheck],
        view: View,
        executor: Executor,
        *,
        clock: Callable[[], datetime],
    ) -> None:
        self._client, self._checks, self._view = client, checks, view
        self._executor, self._clock = executor, clock
        self._log = structlog.get_logger("farewell")

    async def __call__(self) -> None:
        await asyncio.gather(*(self._close(check) for check in self._checks.store if is_ours(check)))
        slots = asyncio.Semaphore(AT_A_TIME)
        await asyncio.gather(*(self._part(workload, slots) for workload in self._waiting()))

    def _waiting(self) -> Iterable[Workload]:
        return [workload for workload in self._view.workloads.store if self._view.checks_of(workload)]

    async def _close(self, check: AdmissionCheck) -> None:
        message = f"the gang-admission controller has been removed; {_FIX}"
        closed = Condition(type=ACTIVE, status="False", reason=REASON, message=message)
        await tell(self._client, ADMISSION_CHECK, check, check.status, closed, now=self._clock())

    async def _part(self, workload: Workload, slots: asyncio.Semaphore) -> None:
        """From the newest that is known: what Kueue writes at the same moment is taken in and tried again."""
        async with slots:
            for _ in range(TRIES):
                try:
                    await self._once(self._view.workloads.get(workload.key) or workload)
                    return
                except (StaleDecision, KubeError) as error:
                    self._log.warning("not left in order", key=str(workload.key), error=str(error))
                await asyncio.sleep(0.2)

    async def _once(self, workload: Workload) -> None:
        for check in self._view.checks_of(workload):
            now_is = self._view.situation(workload, check, now=self._clock())
            actions = parting(now_is)
            await self._executor.run(actions, workload=workload, check=check, flavors=now_is.flavors)
