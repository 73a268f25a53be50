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

from muster.controller.gangs.actions import EmitEvent
from muster.controller.gangs.assembly import delete_all
from muster.controller.gangs.objects import Condition
from muster.controller.gangs.policies import apply_condition
from muster.controller.gangs.shutdown import REASON, ShutdownHandler
from muster.controller.kube.client import Client
from muster.controller.kube.resource import Key
from muster.controller.kueue.actions import Action, Reactivate, State
from muster.controller.kueue.check_state import set_pending
from muster.controller.kueue.checks import ACTIVE, is_ours
from muster.controller.kueue.executor import Executor
from muster.controller.kueue.objects import ADMISSION_CHECK, AdmissionCheck
from muster.controller.kueue.snapshot import WorkloadSnapshot
from muster.controller.kueue.view import View
from muster.controller.runtime.informer import Informer

_FIX: Final = "install it again, or take the check off the ClusterQueue"


def shutdown_actions(snapshot: WorkloadSnapshot) -> tuple[Action, ...]:
    """The last that we do for this gang."""
    history = snapshot.history
    if snapshot.is_finished or snapshot.runs:
        return ()
    released = delete_all(snapshot)
    if not snapshot.workload.spec.active:
        deactivated_by_us = history.retry_at is not None and not (history.refused or history.grows)
        reactivate = (Reactivate(history=replace(history, retry_at=None)),) if deactivated_by_us else ()
        return (*released, *reactivate)
    if (
        snapshot.check_state is None
        or snapshot.check_state.state in (State.RETRY, State.REJECTED)
        or not snapshot.may_act
    ):
        return released
    message = f"the gang-admission controller has been removed: nobody asks for nodes any more. Fix: {_FIX}"
    event = EmitEvent(kind="Warning", reason=REASON, message=message)
    return (*released, *set_pending(snapshot, message), event)


def on_shutdown(
    client: Client,
    checks: Informer[AdmissionCheck],
    view: View,
    executor: Executor,
    *,
    clock: Callable[[], datetime],
) -> ShutdownHandler:
    """Says it: first on the checks, then to every gang that waits."""

    async def announce() -> None:
        message = f"the gang-admission controller has been removed; {_FIX}"
        inactive = Condition(type=ACTIVE, status="False", reason=REASON, message=message)
        ours = [check for check in checks.store if is_ours(check)]
        event = (
            apply_condition(client, ADMISSION_CHECK, each, each.status, inactive, now=clock())
            for each in ours
        )
        await asyncio.gather(*event)

    def gangs() -> Iterable[Key]:
        """Who waits outside the quota first: nobody else would ever wake them, and the rest loses less."""
        ours = (workload for workload in view.workloads.store if view.checks_of(workload))
        return [workload.key for workload in sorted(ours, key=lambda workload: workload.spec.active)]

    async def release_gang(key: Key) -> None:
        workload = view.workloads.get(key)
        if workload is None:
            return
        for check in view.checks_of(workload):
            snapshot = view.snapshot(workload, check, now=clock())
            actions = shutdown_actions(snapshot)
            await executor.run(actions, workload=workload, check=check, flavors=snapshot.flavors)

    return ShutdownHandler(announce=announce, gangs=gangs, release_gang=release_gang)
