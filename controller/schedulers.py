"""Whose gangs this process looks after: Kueue's Workloads or KAI's Ray clusters.

Decides it once, at the start, from the GangPolicy: `spec.kai` is there exactly where KAI schedules. The other
scheduler's kinds need not exist in the cluster, so only one of the two is ever watched; when the policy says
something else later, the process ends and Kubernetes starts it anew.
"""

import asyncio

from controller.admission import wiring as kueue
from controller.gangs.objects import GANG_POLICY, GangPolicyObject
from controller.kai import wiring as kai
from controller.kube.errors import NotFound
from controller.kube.resource import Key
from controller.runtime.informer import Informer
from controller.runtime.manager import Manager
from model import names

_POLICY = Key("", names.GANG_POLICY)


class SchedulerChanged(Exception):
    """The stack has another scheduler now than when this process started."""


async def setup(manager: Manager) -> None:
    """Register the reconcilers of the stack's scheduler. Without a policy it is Kueue: its checks say then
    what is missing.
    """
    try:
        is_kai = schedules_with_kai(await manager.reader.get(GANG_POLICY, _POLICY))
    except NotFound:
        is_kai = False
    policies = manager.informer(GANG_POLICY)
    (kai.setup if is_kai else kueue.setup)(manager, policies)
    manager.service("scheduler of the stack", lambda: _until_changed(policies, is_kai))


def schedules_with_kai(policy: GangPolicyObject) -> bool:
    return policy.spec.get("kai") is not None


async def _until_changed(policies: Informer[GangPolicyObject], is_kai: bool) -> None:
    changed = asyncio.Event()

    def told(_: GangPolicyObject | None, after: GangPolicyObject | None) -> None:
        if after is not None and after.key == _POLICY and schedules_with_kai(after) != is_kai:
            changed.set()

    policies.store.listen(told)
    await changed.wait()
    before, now = ("KAI", "Kueue") if is_kai else ("Kueue", "KAI")
    raise SchedulerChanged(f"GangPolicy {_POLICY.name} speaks of {now} now and not of {before}")
