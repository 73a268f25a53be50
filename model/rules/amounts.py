"""Amounts: quota, borrowing and lending of teams and departments.

Decides which amounts make sense for a pool and that guarantees can be kept: quotas of a pool sum to no more
than the pool. Leaves how amounts become CPU and memory to quotas.py.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from model.pools import Pool
from model.quantities import format_cpu, format_memory
from model.queues import Allowance, Amount, Bound, Share
from model.quotas import NOTHING, Resources, lending, named_quota, quota, resources, whole
from model.rules.paths import department_path, team_path
from model.stack import Stack
from model.violations import Violation, at, suggestion


@dataclass(frozen=True, slots=True)
class _Holder:
    """A team or department with its place; `root` is the top of its tree, `weight` None for a department."""

    path: str
    name: str
    root: str
    allowance: Allowance
    weight: int | None
    has_parent: bool


def amount_rules(stack: Stack) -> list[Violation]:
    """Every rule about amounts."""
    holders = _holders(stack)
    found = [violation for holder in holders for violation in _holder(stack, holder, holders)]
    return [*found, *_sums(stack, holders)]


def _holders(stack: Stack) -> list[_Holder]:
    found = []
    for above, department in stack.walk():
        path, root = department_path((*above, department)), (*above, department)[0].name
        found.append(_Holder(path, department.name, root, department.allowance, None, bool(above)))
    for chain, team in stack.teams():
        found.append(
            _Holder(team_path(chain, team), team.name, chain[0].name, team.allowance, team.weight, True)
        )
    return found


def _holder(stack: Stack, holder: _Holder, holders: list[_Holder]) -> Iterator[Violation]:
    allowance = holder.allowance
    for key, shares in (
        ("quota", allowance.quota),
        ("borrow", allowance.borrow.pools),
        ("lend", allowance.lend.pools),
    ):
        yield from _shares(stack, at(holder.path, key), shares)
    yield from _lending(stack, holder)
    yield from _cohort(holder)
    yield from _borrowing(stack, holder, holders)


def _shares(stack: Stack, path: str, shares: Mapping[str, Share]) -> Iterator[Violation]:
    for name, share in shares.items():
        pool = stack.pool(name)
        if pool is None:
            known = [pool.name for pool in stack.pools]
            yield Violation(
                at(path, name), f"pool {name!r} is unknown.", suggestion(name, known, noun="pool")
            )
        elif isinstance(share, Amount):
            yield from _amount(at(path, name), pool, share)


def _amount(path: str, pool: Pool, amount: Amount) -> Iterator[Violation]:
    if not pool.is_gpu and amount.gpus:
        yield Violation(path, f"pool {pool.name} has no GPUs.", "write an amount of CPU: 4, 1.5 or 500m.")
        return
    if pool.is_gpu and amount.gpus is None:
        yield Violation(
            path, f"pool {pool.name} is counted in GPUs.", "write a number of GPUs: 4, or {gpus: 4, ...}."
        )
        return
    if not pool.is_gpu and amount.cpu is None:
        yield Violation(
            path, f"pool {pool.name} is counted in CPU.", "write an amount of CPU: 4, 1.5 or 500m."
        )
        return
    if amount.gpus and amount.gpus % pool.gpus_per_node:
        below = amount.gpus // pool.gpus_per_node * pool.gpus_per_node
        above = below + pool.gpus_per_node
        message = f"{amount.gpus} GPUs are not whole nodes: pool {pool.name} has {pool.gpus_per_node} a node."
        fix = f"use {f'{below} or ' if below else ''}{above} unless teams share nodes."
        yield Violation(path, message, fix, level="warning")


def _lending(stack: Stack, holder: _Holder) -> Iterator[Violation]:
    """Kueue refuses a ClusterQueue that lends more than it has."""
    for name in holder.allowance.lend.pools:
        pool = stack.pool(name)
        if pool is None:
            continue
        owned = quota(stack, holder.allowance, pool, weight=holder.weight) or NOTHING
        lent = lending(pool, holder.allowance)
        if lent is not None and not lent.within(owned):
            message = f"lends {told(pool, lent)} of a quota of {told(pool, owned)}."
            yield Violation(at(holder.path, "lend", name), message, "lend at most the quota, or write `all`.")


def _cohort(holder: _Holder) -> Iterator[Violation]:
    """A limit of a top-level department would bound an exchange with nobody; Kueue refuses it."""
    if holder.has_parent:
        return
    for key, limit in (("borrow", holder.allowance.borrow), ("lend", holder.allowance.lend)):
        if limit.pools or limit.otherwise is not None:
            message = f"{holder.name} is at the top, without a cohort above it to {key} in."
            fix = "remove it, or nest the departments that share in one department."
            yield Violation(at(holder.path, key), message, fix)


def _borrowing(stack: Stack, holder: _Holder, holders: list[_Holder]) -> Iterator[Violation]:
    """Borrowing needs somebody of the same tree who has quota of the pool and lends."""
    if not holder.has_parent:
        return
    others = [other for other in holders if other.root == holder.root and other.name != holder.name]
    for name, share in holder.allowance.borrow.pools.items():
        pool = stack.pool(name)
        if (
            pool is None
            or share is Bound.NONE
            or (isinstance(share, Amount) and not (share.gpus or share.cpu))
        ):
            continue
        if not any(_lends(stack, other, pool) for other in others):
            message = f"there is nobody to borrow {name} from: no other under {holder.root} has any to lend."
            fix = f"give another team or department under {holder.root} a quota of {name}, or remove it."
            yield Violation(at(holder.path, "borrow", name), message, fix)


def _lends(stack: Stack, holder: _Holder, pool: Pool) -> bool:
    owned = quota(stack, holder.allowance, pool, weight=holder.weight)
    return owned not in (None, NOTHING) and lending(pool, holder.allowance) != NOTHING


def _sums(stack: Stack, holders: list[_Holder]) -> Iterator[Violation]:
    """A quota is a guarantee: all of a pool's together have to fit its nodes when all of them stand."""
    for pool in stack.pools:
        total, most = named_quota(stack, pool), whole(pool)
        if total.within(most):
            continue
        parts = [
            (holder, holder.allowance.quota[pool.name])
            for holder in holders
            if pool.name in holder.allowance.quota
        ]
        listed = ", ".join(f"{holder.name} {told(pool, resources(pool, amount))}" for holder, amount in parts)
        message = f"quotas of {told(pool, total)} ({listed}) exceed the pool's {told(pool, most)}."
        fix = "raise maxNodes, or lower the quotas and let teams borrow."
        yield Violation(f"muster:pools.{pool.name}.maxNodes", message, fix)


def told(pool: Pool, amount: Resources) -> str:
    """An amount in the unit in which a user counts the pool."""
    if pool.is_gpu:
        return f"{amount.gpus} GPUs, {format_cpu(amount.cpu)} CPU, {format_memory(amount.memory)}"
    return f"{format_cpu(amount.cpu)} CPU, {format_memory(amount.memory)}"
