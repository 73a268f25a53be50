"""What becomes of a gang when the controller is uninstalled.

Pods that have passed the gate keep running; a batch that has begun to pass passes whole. A batch that waits
releases its capacity, because no other client would, and keeps its gate: without a request its pods must not
be visible to an autoscaler. Its leader and its object say what happened and what helps. A controller that
is installed again finds nothing that it could not have left itself.
"""

from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from typing import Final

from muster.controller.gangs.actions import EmitEvent, deletions
from muster.controller.gangs.assembly import delete_all
from muster.controller.gangs.objects import GANG_POLICY, Condition, GangPolicyObject
from muster.controller.gangs.policies import ACCEPTED, apply_condition
from muster.controller.gangs.shutdown import REASON, REMOVED, ShutdownHandler
from muster.controller.gangs.shutdown import on_shutdown as handler
from muster.controller.gangs.taints import NodeTaints
from muster.controller.kai.actions import Action, Decision
from muster.controller.kai.decide import finish, set_status
from muster.controller.kai.hooks import RayClusterHooks
from muster.controller.kai.labels import CLUSTERS, gang_of, is_gated
from muster.controller.kai.snapshot import BatchSnapshot, ClusterSnapshot
from muster.controller.kai.view import View
from muster.controller.kube.client import Client
from muster.controller.kube.resource import Key
from muster.controller.runtime.informer import Informer
from muster.model.names import GANG_GATE

_FIX: Final = (
    f"install it again, or remove the scheduling gate {GANG_GATE} from its pods: they then start as KAI "
    f"finds room, without capacity that was asked for"
)


def shutdown_actions(snapshot: ClusterSnapshot) -> tuple[Action, ...]:
    """The last writes for this cluster."""
    if snapshot.is_finished:
        return deletions((), (), snapshot.placeholders)
    try:
        batches = snapshot.batch_snapshots
    except ValueError:
        return ()  # It makes no batches: it holds nothing, and its status says why.
    _, _, stray = snapshot.unneeded(kept={each.batch.attempt for each in batches})
    return (*deletions((), (), stray), *(action for batch in batches for action in _release(batch)))


def _release(snapshot: BatchSnapshot) -> tuple[Action, ...]:
    if snapshot.batch.ungated and snapshot.policy is not None:
        return finish(snapshot, snapshot.policy).actions
    message = f"{REMOVED}: no nodes are requested any more. Fix: {_FIX}"
    event = EmitEvent(kind="Warning", reason=REASON, message=message)
    return (*delete_all(snapshot), *set_status(snapshot, message), event)


def on_shutdown(
    client: Client,
    policies: Informer[GangPolicyObject],
    view: View,
    hooks: RayClusterHooks,
    *,
    taints: NodeTaints,
    clock: Callable[[], datetime],
) -> ShutdownHandler:
    def conditions() -> Iterable[Awaitable[None]]:
        removed = Condition(type=ACCEPTED, status="False", reason=REASON, message=f"{REMOVED}; {_FIX}")
        return (apply_condition(client, GANG_POLICY, each, removed, now=clock()) for each in policies.store)

    def gangs() -> Iterable[Key]:
        waiting = {key for pod in view.pods.store if is_gated(pod) for key in gang_of(pod)}
        return waiting | {key for pod in view.placeholders.store for key in CLUSTERS.keys_of(pod)}

    def last(snapshot: ClusterSnapshot) -> Decision:
        return Decision(actions=shutdown_actions(snapshot))

    return handler(
        hooks, last, gangs=gangs, conditions=conditions, clock=clock, nodes=view.nodes, taints=taints
    )
