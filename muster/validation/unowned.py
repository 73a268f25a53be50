"""Pools that no team has quota of, and teams that have none: work that names them waits for ever, in silence.

Warnings, because a stack may be on its way: a pool for a team that comes later. `muster validate` and the
report of a change have them.
"""

from collections.abc import Iterator

from muster.model.kai import QueueSettings
from muster.model.pools import Pool
from muster.model.queues import Allowance, Department, Team
from muster.model.quotas import NOTHING, Resources, Unnamed, borrowing, quota, unnamed
from muster.model.stack import Stack
from muster.model.violations import Violation
from muster.validation.paths import team_path


def unowned_rules(stack: Stack) -> list[Violation]:
    """Every pool without a quota, and every team without any. Quotas in the schedulers' own keys (`kueue:`,
    `kai:`) are not judged.
    """
    owners: list[Team | Department] = [team for _, team in stack.teams()]
    owners += [department for _, department in stack.walk()]
    if any(owner.kueue.resource_groups or owner.kai != QueueSettings() for owner in owners):
        return []
    return [*_pools(stack), *_teams(stack)]


def _pools(stack: Stack) -> Iterator[Violation]:
    holders = [department.allowance for _, department in stack.walk()]
    holders += [team.allowance for _, team in stack.teams()]
    for pool in stack.pools:
        if holders and pool.is_gpu and not any(pool.name in each.quota for each in holders):
            message = "no team and no department has quota of it, so no work ever starts there."
            fix = f"give a team some, `quota: {{{pool.name}: {pool.max_gpus}}}`, or remove the pool."
            yield Violation(f"muster:pools.{pool.name}", message, fix, level="warning")


def _teams(stack: Stack) -> Iterator[Violation]:
    rest = unnamed(stack)
    gpus = [pool for pool in stack.pools if pool.is_gpu]
    for chain, team in stack.owners():
        fix = "write `quota:` with an amount of a pool: `quota: {POOL: 4}`."
        if gpus:
            fix = fix.replace("POOL", gpus[0].name)
        if all(_quota(rest, team, pool) == NOTHING for pool in stack.pools):
            idle = any(borrowing(pool, team.allowance, is_team=True) != NOTHING for pool in stack.pools)
            effect = "its work starts only on what others leave idle" if idle else "none of its work starts"
            message = f"has no quota of any pool, and the quotas of others leave nothing: {effect}."
            yield Violation(team_path(chain, team), message, fix, level="warning")
        elif gpus and _is_empty(team):
            message = (
                "has no quota of a pool with GPUs: it gets a share of the CPU pools and runs CPU work alone."
            )
            yield Violation(team_path(chain, team), message, fix, level="warning")


def _quota(rest: Unnamed, team: Team, pool: Pool) -> Resources:
    return quota(rest, team.allowance, pool, weight=team.weight) or NOTHING


def _is_empty(team: Team) -> bool:
    """Nothing says that it is meant to have no GPUs."""
    return team.allowance == Allowance() and not team.priorities
