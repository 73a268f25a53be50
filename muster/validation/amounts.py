"""Amounts: quota, borrowing and lending of teams and departments.

Responsible for which amounts make sense for a pool, and for guarantees that can be kept: the quotas of a pool
sum to no more than the pool.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from muster.model.clusters import Cluster
from muster.model.pools import Pool
from muster.model.quantities import GIB
from muster.model.queues import Allowance, Amount, Bound, Share
from muster.model.quotas import (
    NOTHING,
    Resources,
    Unnamed,
    lending,
    named_quota,
    quota,
    resources,
    unnamed,
    whole,
)
from muster.model.stack import Stack
from muster.model.violations import Violation, at, suggestion
from muster.validation.identities import department_path, team_path

_IN_CPU: Final = "write an amount of CPU: 4, 1.5 or 500m."
_IN_GPUS: Final = "write a number of GPUs: 4, or {gpus: 4, ...}."


@dataclass(frozen=True, slots=True)
class _Holder:
    """A team or department with its place; `root` is the top of its tree, `weight` None for a department."""

    path: str
    name: str
    root: str
    allowance: Allowance
    weight: int | None
    has_parent: bool


@dataclass(frozen=True, slots=True)
class _RuleContext:
    """A stack and the figures that several rules need. `lenders` maps root and pool to names."""

    cluster: Cluster
    pools: Mapping[str, Pool]
    rest: Unnamed
    holders: tuple[_Holder, ...]
    lenders: Mapping[tuple[str, str], frozenset[str]]


def amount_rules(stack: Stack) -> list[Violation]:
    context = _rule_context(stack)
    found = [violation for holder in context.holders for violation in _holder(context, holder)]
    return [*found, *_sums(stack, context)]


def _rule_context(stack: Stack) -> _RuleContext:
    rest, holders = unnamed(stack), tuple(_holders(stack))
    lenders: dict[tuple[str, str], set[str]] = {}
    for holder in holders:
        for pool in stack.pools:
            owned = quota(rest, holder.allowance, pool, weight=holder.weight)
            if owned not in (None, NOTHING) and lending(pool, holder.allowance) != NOTHING:
                lenders.setdefault((holder.root, pool.name), set()).add(holder.name)
    frozen = {key: frozenset(lending_names) for key, lending_names in lenders.items()}
    pools = {pool.name: pool for pool in stack.pools}
    return _RuleContext(stack.cluster, pools, rest, holders, frozen)


def _holders(stack: Stack) -> Iterator[_Holder]:
    for above, department in stack.walk():
        chain = (*above, department)
        path, root = department_path(chain), chain[0].name
        yield _Holder(path, department.name, root, department.allowance, None, bool(above))
    for chain, team in stack.owners():
        yield _Holder(team_path(chain, team), team.name, chain[0].name, team.allowance, team.weight, True)


def _holder(context: _RuleContext, holder: _Holder) -> Iterator[Violation]:
    allowance = holder.allowance
    written = {"quota": allowance.quota, "borrow": allowance.borrow.pools, "lend": allowance.lend.pools}
    for key, shares in written.items():
        yield from _shares(context, at(holder.path, key), shares)
    yield from _lending(context, holder)
    yield from _cohort(holder)
    yield from _borrowing(context, holder)


def _shares(context: _RuleContext, path: str, shares: Mapping[str, Share]) -> Iterator[Violation]:
    for name, share in shares.items():
        if name not in context.pools:
            fix = suggestion(name, context.pools, noun="pool")
            yield Violation(at(path, name), f"pool {name!r} is unknown.", fix)
        elif isinstance(share, Amount) and share.is_unlimited:
            yield from _unbounded(at(path, name), context.pools[name], context.cluster)
        elif isinstance(share, Amount):
            yield from _amount(at(path, name), context.pools[name], share)


def _unbounded(path: str, pool: Pool, cluster: Cluster) -> Iterator[Violation]:
    """On EKS quota alone bounds what a pool has in all of its zones together."""
    groups = cluster.group_sizes(pool)
    most = sum(nodes for _, nodes in groups.values())
    if len(groups) > 1 and most > pool.max_nodes:
        message = (
            f"nothing bounds the pool as a whole: each of its {len(groups)} zones may grow to maxNodes, "
            f"{most} nodes in all, and not {pool.max_nodes}."
        )
        fix = f"name one zone in muster:pools.{pool.name}.zones, or write an amount here."
        yield Violation(path, message, fix, "warning")


def _amount(path: str, pool: Pool, amount: Amount) -> Iterator[Violation]:
    if not pool.is_gpu and amount.gpus:
        yield Violation(path, f"pool {pool.name} has no GPUs.", _IN_CPU)
    elif pool.is_gpu and amount.gpus is None:
        yield Violation(path, f"pool {pool.name} is counted in {pool.devices}.", _IN_GPUS)
    elif not pool.is_gpu and amount.cpu is None:
        yield Violation(path, f"pool {pool.name} is counted in CPU.", _IN_CPU)
    elif amount.gpus and amount.gpus % (pool.slots_per_node * pool.slice_nodes):
        each = pool.slots_per_node * pool.slice_nodes
        below = amount.gpus // each * each
        above = below + each
        unit, others = ("node", " unless teams share nodes") if pool.slice_nodes == 1 else ("slice", "")
        message = f"{amount.gpus} {pool.devices} are not whole {unit}s: pool {pool.name} has {each} a {unit}."
        fix = f"use {f'{below} or ' if below else ''}{above}{others}."
        yield Violation(path, message, fix, level="warning")


def _lending(context: _RuleContext, holder: _Holder) -> Iterator[Violation]:
    """Kueue refuses a ClusterQueue that lends more than it has. What a department lends is its teams'."""
    if holder.weight is None:
        return
    for name in holder.allowance.lend.pools:
        pool = context.pools.get(name)
        lent = lending(pool, holder.allowance) if pool else None
        if pool is None or lent is None:
            continue
        owned = quota(context.rest, holder.allowance, pool, weight=holder.weight) or NOTHING
        if not lent.within(owned):
            format_figure = _decisive(pool, lent, owned)
            message = f"lends {format_figure(lent)} of a quota of {format_figure(owned)}."
            yield Violation(at(holder.path, "lend", name), message, "lend at most the quota, or write `all`.")
        for resource in lent.beyond(owned):
            message = f"lends {lent.other(resource)} {resource} of a quota of {owned.other(resource)}."
            yield Violation(at(holder.path, "lend", name), message, "lend at most the quota, or write `all`.")


def _cohort(holder: _Holder) -> Iterator[Violation]:
    """A top-level department has no cohort to borrow from or lend to, and Kueue refuses a limit there."""
    if holder.has_parent:
        return
    for key, limit in (("borrow", holder.allowance.borrow), ("lend", holder.allowance.lend)):
        if limit.pools or limit.otherwise is not None:
            message = f"{holder.name} is at the top, without a cohort above it to {key} in."
            fix = "remove it, or nest the departments that share in one department."
            yield Violation(at(holder.path, key), message, fix)


def _borrowing(context: _RuleContext, holder: _Holder) -> Iterator[Violation]:
    """Borrowing needs another team or department of the same tree that has quota of the pool and lends it."""
    for name, share in holder.allowance.borrow.pools.items():
        nothing = share is Bound.NONE or (isinstance(share, Amount) and not (share.gpus or share.cpu))
        if name not in context.pools or nothing or not holder.has_parent:
            continue
        if context.lenders.get((holder.root, name), frozenset()) <= {holder.name}:
            message = f"no other team or department under {holder.root} has {name} to lend."
            fix = f"give another team or department under {holder.root} a quota of {name}, or remove it."
            yield Violation(at(holder.path, "borrow", name), message, fix)


def _sums(stack: Stack, context: _RuleContext) -> Iterator[Violation]:
    """A quota is a guarantee: the quotas of a pool have to fit its nodes at maxNodes."""
    for name, pool in context.pools.items():
        total, most = named_quota(stack, pool), whole(pool)
        for resource in total.beyond(most):
            if resource in pool.resources:
                message = (
                    f"quotas of {total.other(resource)} {resource} exceed the pool's {most.other(resource)}."
                )
                fix = "raise maxNodes or the amount of a node, or lower the quotas."
                yield Violation(at("muster:pools", name, "resources"), message, fix)
        if total.within(most):
            continue
        owners = [
            holder
            for holder in context.holders
            if name in holder.allowance.quota and not holder.allowance.quota[name].is_unlimited
        ]
        shares = [(owner.name, resources(pool, owner.allowance.quota[name])) for owner in owners]
        format_figure = _decisive(pool, total, most)
        parts = ", ".join(f"{owner} {format_figure(share)}" for owner, share in shares)
        message = f"quotas of {format_figure(total)} ({parts}) exceed the pool's {format_figure(most)}."
        fix = "raise maxNodes, or lower the quotas and let teams borrow."
        yield Violation(f"muster:pools.{name}.maxNodes", message, fix)


def _decisive(pool: Pool, total: Resources, most: Resources) -> Callable[[Resources], str]:
    """How to write the first figure by which `total` exceeds `most`: a user grants GPUs, and CPU follows."""
    if pool.is_gpu and total.gpus > most.gpus:
        return lambda amount: f"{amount.gpus} {pool.devices}"
    if total.cpu > most.cpu:
        return lambda amount: f"{amount.cpu / 1000:g} CPU"
    return lambda amount: f"{amount.memory / GIB:.1f} GiB"
