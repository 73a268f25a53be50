"""Sharing: limits of children compared with their parents, and teams without a Cohort."""

from collections.abc import Iterator, Mapping

from muster.model.kueue.tree import in_pool_unit, to_tree
from muster.model.pools import Pool
from muster.model.quantities import Millicores, format_cpu
from muster.model.queues import Allowance, Amount, Department, Team
from muster.model.quotas import NOTHING, Resources, borrowing, resources
from muster.model.stack import Stack
from muster.model.violations import Violation, at
from muster.validation.kueue.object_names import cohort_path
from muster.validation.paths import department_path, team_path

_Chain = tuple[Department, ...]


def sharing_rules(stack: Stack) -> list[Violation]:
    """Every rule about who shares with whom."""
    return [*_alone(stack), *_above(stack)]


def _alone(stack: Stack) -> Iterator[Violation]:
    """Kueue refuses a borrowing or lending limit on a ClusterQueue without a cohort."""
    for above, department in stack.walk():
        if department.kueue.exists:
            continue
        chain = (*above, department)
        path = cohort_path(chain, "cohort")
        if above or department.departments:
            message = "only a top-level department without departments can be without a Cohort."
            yield Violation(path, message, "remove it, or move the department.")
        if department.allowance != Allowance():
            message = "a quota or limit of the department needs a Cohort."
            yield Violation(path, message, "remove it, or give the quota to the teams.")
        for team in department.owners:
            said = team.allowance
            for key, limit in (("borrow", said.borrow), ("lend", said.lend)):
                if limit.pools or limit.otherwise is not None:
                    message = f"{team.name} has no cohort to {key} in."
                    fix = "remove it, or remove `cohort: none` of the department."
                    yield Violation(at(team_path(chain, team), key), message, fix)


def _above(stack: Stack) -> Iterator[Violation]:
    """A child cannot borrow more than its parents let through."""
    tree = to_tree(stack)
    brought = {pool.name: tree.sums(pool.name) for pool in stack.pools}
    for above, department in stack.walk():
        chain = (*above, department)
        if not all(each.kueue.exists for each in chain):
            continue
        yield from _child(stack, brought, department_path(chain), above, department)
        for team in department.owners:
            yield from _child(stack, brought, team_path(chain, team), chain, team)


_Brought = Mapping[str, Mapping[str, Resources]]
"""pool -> team or department -> what it and all below it bring."""


def _child(
    stack: Stack,
    brought: _Brought,
    path: str,
    above: _Chain,
    owner: Department | Team,
) -> Iterator[Violation]:
    for name, share in owner.allowance.borrow.pools.items():
        pool = stack.pool(name)
        if pool is None or not isinstance(share, Amount) or not above:
            continue
        most = _passing(brought[name], above, pool, owner.name)
        wanted = in_pool_unit(pool, resources(pool, share))
        if 0 < most < wanted:
            message = (
                f"borrows up to {_format_units(pool, wanted)}, and no more than "
                f"{_format_units(pool, most)} can ever come "
                f"through {above[-1].name}."
            )
            fix = f"write {_format_units(pool, most)}, or let the departments above borrow more."
            yield Violation(at(path, "borrow", name), message, fix, level="warning")


def _passing(brought: Mapping[str, Resources], above: _Chain, pool: Pool, child: str) -> int:
    """The most that a child can get: at each department the quota of the others below it, plus what the
    department itself may borrow. Lending limits are ignored; they only lower the bound.
    """
    bounds = []
    for depth, department in enumerate(above):
        others = in_pool_unit(pool, brought[department.name]) - in_pool_unit(pool, brought[child])
        limit = borrowing(pool, department.allowance, is_team=False) if depth else NOTHING
        if limit is not None:
            bounds.append(others + in_pool_unit(pool, limit))
    return min(bounds)


def _format_units(pool: Pool, count: int) -> str:
    return str(count) if pool.is_gpu else format_cpu(Millicores(count))
