"""The report as JSON, for programs.

Decides the field names, which stay as they are from here on. Amounts are `{gpus, cpu, memory}` as in
Kubernetes quantities. As everywhere, no value of a resource is in it.
"""

from dataclasses import asdict
from typing import Any

from muster.model.kai import Unlimited
from muster.model.kai.tree import Figures
from muster.model.pools import Pool
from muster.model.prices import Price
from muster.model.quantities import format_cpu, format_memory
from muster.model.quotas import Resources
from muster.model.stack import Stack
from muster.preview.compare.changes import Changes, Quota, QuotaChange
from muster.preview.compare.diff import StackDiff
from muster.preview.cost import HourlyCost, hourly_cost
from muster.preview.events import PolicyViolation
from muster.preview.kai import is_kai, queue_changes
from muster.preview.overuse import queued_work, quota_overuse
from muster.preview.plan import Resource
from muster.preview.tree import Holding

Record = dict[str, Any]


def to_json(stacks: list[StackDiff]) -> Record:
    """One object with every stack."""
    return {"version": 1, "stacks": [_stack(told) for told in stacks]}


def _stack(told: StackDiff) -> Record:
    found: Record = {
        "stack": told.name,
        "changed": not told.is_empty,
        "mistakes": list(told.mistakes),
        "errors": list(told.failures),
        "warnings": [asdict(each) for each in told.warnings],
        "refused": told.is_refused,
        "policies": [_breach(each) for each in told.breaches],
        "resources": [_resource(each) for each in told.resources(pending=False)],
        "pending": [_resource(each) for each in told.resources(pending=True)],
    }
    if told.changes is None:
        return found
    return found | _changes(told.changes) | _pools(told) | _now(told, told.changes) | _kai(told)


def _breach(breach: PolicyViolation) -> Record:
    return {
        "policy": breach.policy,
        "mandatory": breach.is_mandatory,
        "urn": breach.urn,
        "message": breach.message,
    }


def _now(told: StackDiff, changes: Changes) -> Record:
    """What the snapshot tells; nothing without one."""
    if told.snapshot is None:
        return {}
    found = quota_overuse(changes, told.snapshot)
    return {
        "snapshot": told.snapshot.taken.isoformat(),
        "over": [
            {
                "team": each.team,
                "pool": each.pool.name,
                "used": each.used,
                "before": each.before,
                "after": each.after,
                "new": each.is_new,
                "gone": each.is_gone,
            }
            for each in found
        ],
        "work": [asdict(each) for each in queued_work(changes, told.snapshot)],
    }


def _kai(told: StackDiff) -> Record:
    if not is_kai(told.base, told.head):
        return {}
    return {
        "kaiQueues": [
            {
                "queue": each.queue,
                "path": list(each.path),
                "resource": each.resource,
                "before": _figures(each.before),
                "after": _figures(each.after),
            }
            for each in queue_changes(told.base, told.head)
        ]
    }


def _figures(figures: Figures | None) -> Record | None:
    """Thousandths of a GPU or CPU, or bytes; None is without bound."""
    if figures is None:
        return None
    quota, limit = (None if isinstance(each, Unlimited) else each for each in (figures.quota, figures.limit))
    return {"quota": quota, "limit": limit, "overQuotaWeight": figures.weight}


def _changes(changes: Changes) -> Record:
    return {
        "quotas": [_quota(each) for each in changes.quotas],
        "sums": [
            {"pool": each.name, "before": _amount(each.before), "after": _amount(each.after)}
            for each in changes.sums
        ],
        "preemption": [
            {
                "new": each.is_new,
                "preemptors": list(each.preemptors),
                "victims": list(each.victims),
                "pools": list(each.pools),
                "right": "priority within the team" if each.right is None else str(each.right),
            }
            for each in changes.preemption
        ],
        "borrowing": [
            {"team": each.name, "pool": each.pool.name, "before": before, "after": after}
            for each, before, after in changes.borrowing()
        ],
        "settings": [asdict(each) for each in changes.settings],
        "unsaid": list(changes.unsaid),
    }


def _quota(change: QuotaChange) -> Record:
    return {
        "name": change.name,
        "path": list(change.path),
        "kind": "team" if change.is_team else "department",
        "pool": change.pool.name,
        "before": _side(change.before),
        "after": _side(change.after),
    }


def _side(side: Quota | None) -> Record | None:
    if side is None:
        return None
    return {"quota": _amount(side.own), "withAllBelow": _amount(side.sums), "most": side.most} | _limits(
        side.holding
    )


def _limits(holding: Holding | None) -> Record:
    if holding is None:
        return {}
    limits = {"borrow": holding.borrow, "lend": holding.lend}
    return {key: None if limit is None else _amount(limit) for key, limit in limits.items()}


def _amount(amount: Resources) -> Record:
    return {"gpus": amount.gpus, "cpu": format_cpu(amount.cpu), "memory": format_memory(amount.memory)}


def _pools(told: StackDiff) -> Record:
    changes = () if told.changes is None else told.changes.pools
    return {
        "pools": [
            {
                "pool": each.name,
                "before": _pool(told, each.before, told.base),
                "after": _pool(told, each.after, told.head),
            }
            for each in changes
        ]
    }


def _pool(told: StackDiff, pool: Pool | None, stack: Stack | None) -> Record | None:
    if pool is None:
        return None
    cost = hourly_cost(pool, stack, told.prices)
    return {
        "machine": pool.machine.name,
        "capacity": pool.capacity.value,
        "minNodes": pool.min_nodes,
        "maxNodes": pool.max_nodes,
        "maxGpus": pool.max_gpus,
        "money": None if cost is None or cost.price is None else _money(cost, cost.price),
    }


def _money(cost: HourlyCost, price: Price) -> Record:
    return {
        "currency": price.currency,
        "leastAnHour": str(cost.least),
        "mostAnHour": str(cost.most),
        "read": price.read.isoformat(),
        "source": price.source,
    }


def _resource(resource: Resource) -> Record:
    return asdict(resource)
