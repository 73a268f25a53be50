"""Chooses the scheduler whose gangs this process reconciles: Kueue's Workloads or KAI's Ray clusters.

Read once, at the start, from the GangPolicy: `spec.kai` is set exactly where KAI schedules. The other
scheduler's kinds need not exist in the cluster, so only one of the two is ever watched; when the policy
changes to the other scheduler, the process ends and Kubernetes restarts it.
"""

import asyncio

import structlog

from muster.controller.gangs.objects import GANG_POLICY, GangPolicyObject
from muster.controller.kai import setup as kai
from muster.controller.kube.client import Client
from muster.controller.kube.errors import KubeError, NotFound
from muster.controller.kube.resource import Key
from muster.controller.kueue import setup as kueue
from muster.controller.runtime.informer import Informer
from muster.controller.runtime.manager import Manager
from muster.model import names

_POLICY = Key("", names.GANG_POLICY)

PATIENCE = 20.0
"""Seconds; then the process ends, because its probes are not answered before it knows what it is."""
PAUSE = 1.0


class SchedulerChanged(Exception):
    """The stack has another scheduler now than when this process started."""


async def setup(manager: Manager) -> None:
    """Register the reconcilers of the stack's scheduler. Without a policy it is Kueue: its checks say then
    what is missing.
    """
    is_kai = await is_kais(manager.reader)
    policies = manager.informer(GANG_POLICY)
    (kai.setup if is_kai else kueue.setup)(manager, policies)
    manager.service("scheduler of the stack", lambda: _until_changed(policies, is_kai))


async def is_kais(reader: Client) -> bool:
    """What the policy says. A server that does not answer is asked again for a while: a process that ends is
    started again after a pause that grows to minutes.
    """
    give_up = asyncio.get_running_loop().time() + PATIENCE
    while True:
        try:
            return schedules_with_kai(await reader.get(GANG_POLICY, _POLICY))
        except NotFound:
            return False
        except KubeError as error:
            if asyncio.get_running_loop().time() >= give_up:
                raise
            structlog.get_logger("schedulers").warning("the policy cannot be read yet", error=str(error))
        await asyncio.sleep(PAUSE)


def schedules_with_kai(policy: GangPolicyObject) -> bool:
    return policy.spec.get("kai") is not None


async def _until_changed(policies: Informer[GangPolicyObject], is_kai: bool) -> None:
    changed = asyncio.Event()

    def on_change(_: GangPolicyObject | None, after: GangPolicyObject | None) -> None:
        if after is not None and after.key == _POLICY and schedules_with_kai(after) != is_kai:
            changed.set()

    policies.store.listen(on_change)
    await changed.wait()
    before, now = ("KAI", "Kueue") if is_kai else ("Kueue", "KAI")
    raise SchedulerChanged(f"GangPolicy {_POLICY.name} speaks of {now} now and not of {before}")
