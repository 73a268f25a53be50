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

from muster.controller.gangs.actions import Tell
from muster.controller.gangs.assembly import everything
from muster.controller.gangs.objects import GANG_POLICY, Condition, GangPolicyObject
from muster.controller.gangs.policies import ACCEPTED, tell
from muster.controller.gangs.shutdown import REASON, Farewell
from muster.controller.kai.actions import Action
from muster.controller.kai.decide import finish, say
from muster.controller.kai.executor import Executor
from muster.controller.kai.indexes import ray_cluster_of
from muster.controller.kai.labels import is_gated
from muster.controller.kai.snapshot import Scene, Situation
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


def parting(scene: Scene) -> tuple[Action, ...]:
    """The last that we do for this cluster."""
    if scene.is_over:
        return ()
    try:
        return tuple(action for mine in scene.situations for action in _leave(mine))
    except ValueError:
        return ()  # It makes no batches: it holds nothing, and says why.


def _leave(mine: Situation) -> tuple[Action, ...]:
    if mine.batch.lifted and mine.policy is not None:
        return finish(mine, mine.policy).actions
    message = f"{_GONE}: nobody asks for nodes any more. Fix: {_FIX}"
    told = Tell(kind="Warning", reason=REASON, message=message)
    return (*everything(mine), *say(mine, message), told)


def farewell(
    client: Client,
    policies: Informer[GangPolicyObject],
    view: View,
    executor: Executor,
    *,
    clock: Callable[[], datetime],
) -> Farewell:
    """Says it: first on the policies, then to every cluster with pods behind the gate."""

    async def close() -> None:
        gone = Condition(type=ACCEPTED, status="False", reason=REASON, message=f"{_GONE}; {_FIX}")
        told = (tell(client, GANG_POLICY, each, each.status, gone, now=clock()) for each in policies.store)
        await asyncio.gather(*told)

    def waiting() -> Iterable[Key]:
        return {key for pod in view.pods.store if is_gated(pod) for key in ray_cluster_of(pod)}

    async def part(key: Key) -> None:
        cluster = view.clusters.get(key)
        if cluster is not None:
            scene = view.scene(cluster, now=clock())
            await executor.run(parting(scene), cluster=cluster, pieces=())

    return Farewell(close=close, waiting=waiting, part=part)
