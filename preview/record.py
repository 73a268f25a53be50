"""The report as JSON, for programs.

Decides the field names, which stay as they are from here on. Amounts are `{gpus, cpu, memory}` as in
Kubernetes quantities. As everywhere, no value of a resource is in it.
"""

from dataclasses import asdict
from typing import Any

from model.pools import Pool
from model.quantities import format_cpu, format_memory
from model.quotas import Resources
from preview.changes import Changes, Quota, QuotaChange
from preview.plan import Resource
from preview.told import Told
from preview.tree import Holding

Record = dict[str, Any]


def record(stacks: list[Told]) -> Record:
    """One object with every stack."""
    return {"version": 1, "stacks": [_stack(told) for told in stacks]}


def _stack(told: Told) -> Record:
    found: Record = {
        "stack": told.name,
        "changed": not told.is_empty,
        "mistakes": list(told.mistakes),
        "errors": list(told.failures),
        "warnings": [asdict(each) for each in told.warnings],
        "resources": [_resource(each) for each in told.resources(pending=False)],
        "pending": [_resource(each) for each in told.resources(pending=True)],
    }
    return found if told.changes is None else found | _changes(told.changes)


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
        "pools": [
            {"pool": each.name, "before": _pool(each.before), "after": _pool(each.after)}
            for each in changes.pools
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


def _pool(pool: Pool | None) -> Record | None:
    if pool is None:
        return None
    return {
        "machine": pool.machine.name,
        "capacity": pool.capacity.value,
        "minNodes": pool.min_nodes,
        "maxNodes": pool.max_nodes,
        "maxGpus": pool.max_gpus,
        "money": None,
    }


def _resource(resource: Resource) -> Record:
    return asdict(resource)
