"""A pool of kai-prod whose gangs ask by placeholders."""

from dataclasses import replace
from typing import Any, Final

from muster.components.gang_pods import placeholder_priority
from muster.model import names
from muster.model.capacity import Capacity, Gangs
from muster.model.pools import Pool
from muster.model.stack import Stack
from muster.render.gang import gang_policy
from tests.integration.kueue_api.objects import apply
from tests.integration.real_kai.bodies import POOL
from tests.integration.real_kai.world import World

_NAMESPACE: Final = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": names.PLACEHOLDER_NAMESPACE},
}


def ask_by_placeholders(world: World, stack: Stack, **changes: Any) -> None:
    """`changes`: of the policy."""
    pools = tuple(_asked_by_pods(pool) if pool.name == POOL else pool for pool in stack.pools)
    policy = gang_policy(replace(stack, pools=pools))
    world.govern(replace(policy, placeholder_image="none", **changes))
    for item in (_NAMESPACE, placeholder_priority()):
        apply(world.server, dict(item))


def _asked_by_pods(pool: Pool) -> Pool:
    return replace(pool, capacity=Capacity.ON_DEMAND, provisioning_class=None, gangs=Gangs.PLACEHOLDERS)
