"""What is said and given back when the controller is removed for good.

Decides, for a Ray cluster at one moment, how it is left to a cluster without us. What has passed the gate
runs on; a batch that has begun to pass passes whole. What waits behind it gives back the capacity that it
gathered, because nobody would, and stays: without a request no autoscaler may be shown its pods. They and
the Ray object say who is gone and what a person can do. A controller that comes back finds nothing that it
could not have left itself.
"""

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final

from muster.controller.gangs.actions import EmitEvent
from muster.controller.gangs.assembly import delete_all
from muster.controller.gangs.objects import GANG_POLICY, Condition, GangPolicyObject
from muster.controller.gangs.policies import ACCEPTED, apply_condition
from muster.controller.gangs.shutdown import REASON, ShutdownHandler
from muster.controller.kai.actions import Action
from muster.controller.kai.decide import finish, set_status
from muster.controller.kai.executor import Executor
from muster.controller.kai.indexes import ray_cluster_of
from muster.controller.kai.labels import is_gated
from muster.controller.kai.snapshot import BatchSnapshot, ClusterSnapshot
from muster.controller.kai.view import View
from muster.controller.kube.client import Client
from muster.controller.kube.resource import Key
from muster.controller.runtime.informer import Informer
from muster.model.names import GANG_GATE

_GONE: Final = "the gang-admission controller has been removed"
_FIX: Final = (
    f"install it again, or remove the scheduling gate {GANG_GATE} from its pods: they then start as KAI "
    f"finds room, without capacity that was asked for"
)


def shutdown_actions(snapshot: ClusterSnapshot) -> tuple[Action, ...]:
    """The last that we do for this cluster."""
    if snapshot.is_over:
        return ()
    try:
        return tuple(action for snapshot in snapshot.batch_snapshots for action in _release(snapshot))
    except ValueError:
        return ()  # It makes no batches: it holds nothing, and says why.


def _release(snapshot: BatchSnapshot) -> tuple[Action, ...]:
    if snapshot.batch.ungated and snapshot.policy is not None:
        return finish(snapshot, snapshot.policy).actions
    message = f"{_GONE}: nobody asks for nodes any more. Fix: {_FIX}"
    event = EmitEvent(kind="Warning", reason=REASON, message=message)
    return (*delete_all(snapshot), *set_status(snapshot, message), event)


def on_shutdown(
    client: Client,
    policies: Informer[GangPolicyObject],
    view: View,
    executor: Executor,
    *,
    clock: Callable[[], datetime],
) -> ShutdownHandler:
    """Says it: first on the policies, then to every cluster with pods behind the gate."""

    async def announce() -> None:
        gone = Condition(type=ACCEPTED, status="False", reason=REASON, message=f"{_GONE}; {_FIX}")
        event = (
            apply_condition(client, GANG_POLICY, each, each.status, gone, now=clock())
            for each in policies.store
        )
        await asyncio.gather(*event)

    def gangs() -> Iterable[Key]:
        return {key for pod in view.pods.store if is_gated(pod) for key in ray_cluster_of(pod)}

    async def release_gang(key: Key) -> None:
        cluster = view.clusters.get(key)
        if cluster is not None:
            snapshot = view.snapshot(cluster, now=clock())
            await executor.run(shutdown_actions(snapshot), cluster=cluster, pod_group_demands=())

    return ShutdownHandler(announce=announce, gangs=gangs, release_gang=release_gang)
