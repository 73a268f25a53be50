"""The report as JSON, for programs.

Field names are stable. Amounts are `{gpus, cpu, memory}` in Kubernetes quantities. As in every other format,
no value of a resource is included. Everything is read from the StackDiff and nothing is computed here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from muster.model.kai import Unlimited
from muster.model.kai import tree as kai_tree
from muster.model.kueue.tree import Holding
from muster.model.pools import Pool
from muster.model.quantities import format_cpu, format_memory
from muster.model.quotas import Resources
from muster.preview.banner import Banner, plain, to_banner
from muster.preview.compare.diff import Changes, QuotaOveruse, StackDiff, Used
from muster.preview.compare.kai import KaiDiff
from muster.preview.compare.pools import HourlyCost, TotalCost
from muster.preview.compare.quota import Quota, QuotaChange
from muster.preview.compare.replay import MonthlyBill, ReplayDiff
from muster.preview.plan import PolicyViolation
from muster.preview.report import facts, to_status
from muster.replay.figures import NEVER, Figures, Waits

Record = dict[str, Any]


def to_json(stacks: Sequence[StackDiff]) -> Record:
    """One object with every stack."""
    return {"version": 1, "stacks": [_stack(diff) for diff in stacks]}


def _stack(diff: StackDiff) -> Record:
    banner = to_banner(diff)
    found: Record = {
        "stack": diff.name,
        "changed": not diff.is_empty,
        "status": asdict(to_status(diff, banner)),
        "banner": _banner(banner),
        "facts": [plain(each) for each in facts(diff)],
        "mistakes": list(diff.mistakes),
        "errors": list(diff.failures),
        "warnings": [asdict(each) for each in diff.warnings],
        "refused": diff.is_refused,
        "policies": [_policy_violation(each) for each in diff.policy_violations],
        "resources": [asdict(each) for each in diff.resources(pending=False)],
        "pending": [asdict(each) for each in diff.resources(pending=True)],
    }
    if diff.changes is None:
        return found
    kai = {} if diff.kai is None else _kai(diff.kai)
    replay = {} if diff.replay is None else {"replay": _replay(diff.replay)}
    return found | _changes(diff, diff.changes) | _pools(diff) | _running(diff) | kai | replay


def _banner(banner: Banner) -> Record:
    """The line that every report begins with, and its parts."""
    parts = ("refusals", "losses", "gains", "others")
    return {"text": plain(banner.text)} | {
        part: [plain(text) for text in getattr(banner, part)] for part in parts
    }


def _policy_violation(violation: PolicyViolation) -> Record:
    return {
        "policy": violation.policy,
        "mandatory": violation.is_mandatory,
        "urn": violation.urn,
        "message": violation.message,
    }


def _running(diff: StackDiff) -> Record:
    """What the snapshot shows; nothing without one."""
    if diff.taken is None:
        return {}
    return {
        "snapshot": diff.taken.isoformat(),
        "over": [_overuse(each) for each in diff.overuse],
        "work": [asdict(each) for each in diff.queued],
    }


def _overuse(each: QuotaOveruse) -> Record:
    return {
        "team": each.team,
        "pool": each.pool.name,
        "used": each.used,
        "before": each.before,
        "after": each.after,
        "most": each.most,
        "new": each.is_new,
        "gone": each.is_gone,
    }


def _kai(kai: KaiDiff) -> Record:
    return {
        "kaiQueues": [
            {
                "queue": each.queue,
                "path": list(each.path),
                "resource": each.resource,
                "before": _figures(each.before),
                "after": _figures(each.after),
            }
            for each in kai.queues
        ],
        "kaiPriorities": [asdict(each) for each in kai.priorities],
        "kaiEvictions": [
            {"priority": each.priority.name, "protected": each.is_protected} for each in kai.evictions
        ],
        "kaiOver": [asdict(each) for each in kai.over_quota],
    }


def _figures(figures: kai_tree.Figures | None) -> Record | None:
    """Thousandths of a GPU or CPU, or bytes. None means unlimited."""
    if figures is None:
        return None
    quota, limit = (None if isinstance(each, Unlimited) else each for each in (figures.quota, figures.limit))
    return {"quota": quota, "limit": limit, "overQuotaWeight": figures.weight}


def _changes(diff: StackDiff, changes: Changes) -> Record:
    return {
        "versions": [asdict(each) for each in changes.versions],
        "quotas": [_quota(each, diff.used) for each in changes.quotas],
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
        "priorities": [asdict(each) for each in changes.priorities],
        "priorityAccess": [asdict(each) for each in changes.access],
        "poolOrder": None if changes.order is None else asdict(changes.order),
        "settings": [
            {"place": each.place, "before": each.before, "after": each.after} for each in changes.settings
        ],
        "namespaces": [asdict(each) for each in changes.namespaces],
        "volumes": [asdict(each) for each in changes.volumes],
        "unsaid": list(changes.not_compared),
    }


def _quota(change: QuotaChange, used: Used) -> Record:
    return {
        "name": change.name,
        "path": list(change.path),
        "kind": "team" if change.is_team else "department",
        "pool": change.pool.name,
        "derived": change.is_derived,
        "before": _side(change.before),
        "after": _side(change.after),
        "used": used.get((change.name, change.pool.name)),
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


def _pools(diff: StackDiff) -> Record:
    return {
        "pools": [
            {
                "pool": each.pool.name,
                "before": _pool(each.pool.before, each.before),
                "after": _pool(each.pool.after, each.after),
            }
            for each in diff.pools
        ],
        "cost": None if diff.cost is None else _total(diff.cost),
    }


def _pool(pool: Pool | None, cost: HourlyCost | None) -> Record | None:
    if pool is None:
        return None
    return {
        "machine": pool.machine.name,
        "capacity": pool.bought,
        "minNodes": pool.min_nodes,
        "maxNodes": pool.max_nodes,
        "maxGpus": pool.max_gpus,
        "money": None if cost is None else _money(cost),
    }


def _money(cost: HourlyCost) -> Record | None:
    price = cost.price
    if price is None:
        return None
    return {
        "currency": price.currency,
        "leastAnHour": str(cost.least),
        "mostAnHour": str(cost.most),
        "read": price.read.isoformat(),
        "isOld": cost.is_old,
        "source": price.source,
    }


def _total(cost: TotalCost) -> Record:
    """The most that an hour of all changed pools costs."""
    return {
        "currency": cost.currency,
        "mostAnHourBefore": str(cost.before),
        "mostAnHourAfter": str(cost.after),
        "notPriced": list(cost.unpriced),
    }


# The part of the JSON report on a replay. Times are seconds; null is a wait that never ends.


def _replay(diff: ReplayDiff) -> Record:
    return {
        "sentence": plain(diff.sentence),
        "start": diff.start,
        "end": diff.end,
        "jobs": diff.played,
        "leftOut": list(diff.left_out),
        "assumptions": [*diff.assumptions, *diff.gaps],
        "base": _replay_figures(diff.base) | {"bills": _bills(diff.bills[0])},
        "head": _replay_figures(diff.head) | {"bills": _bills(diff.bills[1])},
    }


def _bills(found: Mapping[str, MonthlyBill]) -> Record:
    """In 30 days."""
    return {
        team: {"gpuHours": each.hours, "cost": dict(each.costs), "budgetGpuHours": each.budget}
        for team, each in found.items()
    }


def _replay_figures(side: Figures) -> Record:
    return {
        "gpus": side.quota,
        "waits": {
            "teams": _waits(side.teams),
            "priorities": _waits(side.priorities),
            "sizes": _waits({str(size): waits for size, waits in side.sizes.items()}),
        },
        "gpuHours": {team: asdict(hours) for team, hours in side.hours.items()},
        "preemptions": [asdict(each) | {"count": count} for each, count in side.preemptions.items()],
        "utilisation": {
            "start": side.utilisation.start,
            "stepSeconds": side.utilisation.step,
            "gpus": [round(value, 2) for value in side.utilisation.used],
        },
        "worst": [asdict(each) | {"wait": _seconds(each.wait)} for each in side.worst],
        "digest": side.digest,
    }


def _waits(found: Mapping[str, Waits]) -> Record:
    return {
        name: {"jobs": each.jobs, "never": each.never, "p50": _seconds(each.p50), "p95": _seconds(each.p95)}
        for name, each in found.items()
    }


def _seconds(wait: float) -> float | None:
    return None if wait == NEVER else wait
