"""What becomes of a Workload's gang when the controller is uninstalled.

A gang that runs keeps running, without the placeholders that brought its nodes; no node keeps our taint. One
that is being provisioned releases its capacity, because no other client would, and its check says why it
waits and what helps. One that this controller deactivated is activated again, because no other client would
do that either. The checks become inactive, so that Kueue sends no more Workloads and reports it on the queue.
A controller that is installed again finds nothing that it could not have left itself.
"""

from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from typing import Final

from muster.controller.gangs.actions import EmitEvent, deletions
from muster.controller.gangs.assembly import delete_all
from muster.controller.gangs.objects import Condition
from muster.controller.gangs.policies import apply_condition
from muster.controller.gangs.shutdown import REASON, REMOVED, ShutdownHandler
from muster.controller.gangs.shutdown import on_shutdown as handler
from muster.controller.gangs.taints import NodeTaints
from muster.controller.kube.client import Client
from muster.controller.kube.resource import Key
from muster.controller.kueue.actions import Action, Decision, State
from muster.controller.kueue.checks import ACTIVE, is_ours
from muster.controller.kueue.hooks import WorkloadHooks
from muster.controller.kueue.objects import ADMISSION_CHECK, AdmissionCheck
from muster.controller.kueue.snapshot import WorkloadSnapshot, set_pending
from muster.controller.kueue.view import View
from muster.controller.kueue.without_quota import reactivate
from muster.controller.runtime.informer import Informer

_FIX: Final = "install it again, or remove the check from the ClusterQueue"


def shutdown_actions(snapshot: WorkloadSnapshot) -> tuple[Action, ...]:
    """The last writes for this gang."""
    history = snapshot.history
    if snapshot.is_finished or snapshot.runs:
        return deletions((), (), snapshot.placeholders)
    released = delete_all(snapshot)
    if not snapshot.workload.spec.active:
        deactivated_by_us = history.retry_at is not None and not (history.refused or history.grows)
        comes_back = deactivated_by_us and not snapshot.is_stopped
        return (*released, *(reactivate(snapshot) if comes_back else ()))
    if snapshot.state in ("", State.RETRY, State.REJECTED) or not snapshot.may_act:
        return released
    message = f"{REMOVED}: no nodes are requested any more. Fix: {_FIX}"
    event = EmitEvent(kind="Warning", reason=REASON, message=message)
    # Clear Ready first, so that Kueue cannot start the gang on capacity that is being released.
    return (*set_pending(snapshot, message), event, *released)


def on_shutdown(
    client: Client,
    checks: Informer[AdmissionCheck],
    view: View,
    hooks: WorkloadHooks,
    *,
    taints: NodeTaints,
    clock: Callable[[], datetime],
) -> ShutdownHandler:
    def conditions() -> Iterable[Awaitable[None]]:
        inactive = Condition(type=ACTIVE, status="False", reason=REASON, message=f"{REMOVED}; {_FIX}")
        ours = (check for check in checks.store if is_ours(check))
        return (apply_condition(client, ADMISSION_CHECK, each, inactive, now=clock()) for each in ours)

    def gangs() -> Iterable[Key]:
        """Deactivated Workloads first: no other client would activate them, and the rest loses less."""
        ours = (workload for workload in view.workloads.store if view.checks_of(workload))
        return [workload.key for workload in sorted(ours, key=lambda workload: workload.spec.active)]

    def last(snapshot: WorkloadSnapshot) -> Decision:
        return Decision(actions=shutdown_actions(snapshot))

    return handler(
        hooks,
        last,
        gangs=gangs,
        conditions=conditions,
        clock=clock,
        nodes=view.nodes,
        taints=taints,
    )
