"""Fields that the stack's scheduler does not support, in either direction of a switch.

Responsible for which fields mean something to one scheduler only. No such field is ignored silently: each one
is a violation.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from muster.model import names
from muster.model.gangpolicy import OnStaggered
from muster.model.kai import NON_PREEMPTIBLE, OWN_CLASSES, KaiSettings, QueueSettings, is_preemptible
from muster.model.kai.tree import Partition, partitions
from muster.model.queues import Allowance, Amount, Bound, Queueing, Reclaim, Team, Within
from muster.model.quotas import NOTHING, Unnamed, lending, quota, unnamed
from muster.model.stack import GangMode, PodsReady, Stack
from muster.model.violations import Violation, at
from muster.validation.paths import department_path, explicit_keys, team_path

_TO_KAI: Final = "remove it, or write `muster:scheduler: kai`."
_TO_KUEUE: Final = "remove it, or write `muster:scheduler: kueue`."


@dataclass(frozen=True, slots=True)
class _RuleContext:
    stack: Stack
    rest: Unnamed
    parts: tuple[Partition, ...]


def unsupported_fields(stack: Stack) -> list[Violation]:
    if not stack.scheduler.is_kai:
        return [*_kai_only(stack), *_gated(stack)]
    context = _RuleContext(stack, unnamed(stack), partitions(stack))
    found = [*_serving(stack), *_gangs(stack), *_priorities(stack)]
    for above, department in stack.walk():
        path = department_path((*above, department))
        found += [*_lending(context, department.allowance, path, weight=None)]
        found += [*_merged(context, department.allowance, path)]
    for chain, team in stack.teams():
        found += _team(context, team, team_path(chain, team))
    return found


def _serving(stack: Stack) -> Iterator[Violation]:
    """Their pods get GPUs where our gate has kept them, by which the policies know that they are queued."""
    served = [kind.family for kind in stack.work_kinds if kind.serves and not stack.is_gated]
    if served:
        message = f"has {', '.join(served)}, whose pods KAI queues behind Muster's gate alone."
        fix = "take it out of the list, or write `muster:gangAdmission: {mode: muster}`."
        yield Violation("muster:work", message, fix)


def _gated(stack: Stack) -> Iterator[Violation]:
    """Kueue 0.19.2 then holds back each pod in the namespaces of teams that no queued work makes, and lifts
    the gate of none (pkg/controller/jobs/pod, Default and Skip).
    """
    served = [kind.family for kind in stack.work_kinds if kind.serves]
    if served and stack.gang_admission.policy.on_staggered is OnStaggered.HOLD:
        message = f"has {', '.join(served)}, with which Kueue holds back the pods that keep nodes."
        fix = "take it out of the list, or write `muster:gangAdmission: {onStaggered: release}`."
        yield Violation("muster:work", message, fix)


def _kai_only(stack: Stack) -> Iterator[Violation]:
    yield from _keys("muster:kai", explicit_keys(stack.kai, KaiSettings()))
    if stack.gang_admission.policy.kai is not None:
        yield from _keys("muster:gangAdmission", iter(("kai",)))
    for above, department in stack.walk():
        path = at(department_path((*above, department)), "kai")
        yield from _keys(path, explicit_keys(department.kai, QueueSettings()))
    for chain, team in stack.teams():
        yield from _keys(at(team_path(chain, team), "kai"), explicit_keys(team.kai, QueueSettings()))


def _keys(path: str, keys: Iterator[str]) -> Iterator[Violation]:
    for key in keys:
        yield Violation(at(path, key), "is a setting of KAI; Kueue has no equivalent.", _TO_KAI)


def _gangs(stack: Stack) -> Iterator[Violation]:
    if stack.gang_admission.mode is GangMode.BUILTIN:
        message = "is Kueue's own check; KAI requests no capacity itself."
        yield Violation("muster:gangAdmission", message, "write `muster`, or `muster:scheduler: kueue`.")
    if stack.pods_ready != PodsReady():
        message = "is Kueue's: KAI does not evict work whose pods do not come up."
        yield Violation("muster:podsReady", message, _TO_KUEUE)


def _team(context: _RuleContext, team: Team, path: str) -> Iterator[Violation]:
    yield from _lending(context, team.allowance, path, weight=team.weight)
    yield from _merged(context, team.allowance, path)
    yield from _preemption(team, path)
    yield from _borrowing(context.stack, team, path)
    if team.queueing is Queueing.STRICT:
        message = "KAI tries the next job when one does not fit; it has no strict order."
        yield Violation(at(path, "queueing"), message, _TO_KUEUE)
    if team.local_queue != names.DEFAULT_LOCAL_QUEUE:
        message = "names a LocalQueue, which KAI does not have: work names the team's Queue itself."
        yield Violation(at(path, "localQueue"), message, _TO_KUEUE)


def _preemption(team: Team, path: str) -> Iterator[Violation]:
    if team.preemption.within is Within.NEVER:
        message = "KAI always lets work of a team preempt lower work of the same team."
        fix = "set how long work runs before that: `kai: {preemptMinRuntime: 12h}`; or remove it."
        yield Violation(at(path, "preemption.within"), message, fix)
    if team.preemption.within is Within.LOWER_OR_NEWER:
        message = "KAI preempts lower priorities only, never newer work of the same priority."
        yield Violation(at(path, "preemption.within"), message, _TO_KUEUE)
    if team.preemption.reclaim is not Reclaim.ANY:
        message = "KAI always reclaims a team's quota from work over its own quota, whatever its priority."
        fix = "set how long others' work runs before that: `kai: {reclaimMinRuntime: 1h}`; or remove it."
        yield Violation(at(path, "preemption.reclaim"), message, fix)


def _lending(
    context: _RuleContext, allowance: Allowance, path: str, *, weight: int | None
) -> Iterator[Violation]:
    """KAI lends all idle quota. Lending an amount equal to the whole quota means the same."""
    kept: dict[str, list[str]] = {}
    for pool in context.stack.pools:
        given = lending(pool, allowance)
        owned = quota(context.rest, allowance, pool, weight=weight) or NOTHING
        if given is not None and (weight is None or not owned.within(given)):
            key = f"lend.{pool.name}" if pool.name in allowance.lend.pools else "lend"
            kept.setdefault(key, []).append(pool.name)
    for key, pools in kept.items():
        message = f"KAI lends all of a quota that is idle; it cannot keep {', '.join(pools)} back."
        fix = "remove it; what is lent is reclaimed when its owner has work."
        yield Violation(at(path, key), message, fix)


def _merged(context: _RuleContext, allowance: Allowance, path: str) -> Iterator[Violation]:
    """One Queue has one figure for the CPU of all its pools."""
    for part in context.parts:
        cpu_pools = [pool.name for pool in part.pools if not pool.is_gpu]
        if len(cpu_pools) < 2:
            continue
        for key, said in (("quota", allowance.quota), ("borrow", allowance.borrow.pools)):
            for name in (name for name in cpu_pools if name in said):
                others = ", ".join(other for other in cpu_pools if other != name)
                message = (
                    f"a KAI Queue has one CPU figure for all pools and does not distinguish {name} "
                    f"from {others}."
                )
                fix = "remove it, or set `muster:kai.sharding: per-pool`."
                yield Violation(at(path, key, name), message, fix)


def _priorities(stack: Stack) -> Iterator[Violation]:
    """KAI never preempts work of priority 100 or more. The names of its own classes express this."""
    firm = [priority for priority in stack.priorities if not is_preemptible(priority)]
    for priority in firm:
        above = [other.name for other in firm if other.value > priority.value]
        if above and OWN_CLASSES.get(priority.name) != priority.value:
            message = (
                f"is {priority.value}, and KAI never preempts work of {NON_PREEMPTIBLE} or more: "
                f"{', '.join(above)} will wait for it."
            )
            fix = f"give it a value below {NON_PREEMPTIBLE} if higher work may preempt it."
            yield Violation(f"muster:priorities.{priority.name}", message, fix, level="warning")


def _borrowing(stack: Stack, team: Team, path: str) -> Iterator[Violation]:
    """Over its quota, a team runs preemptible work only."""
    allowed = [each for each in stack.priorities if not team.priorities or each.name in team.priorities]
    if not allowed or any(is_preemptible(priority) for priority in allowed):
        return
    for name, share in team.allowance.borrow.pools.items():
        nothing = share is Bound.NONE or (isinstance(share, Amount) and not share.gpus)
        pool = stack.pool(name)
        if pool is not None and pool.is_gpu and not nothing:
            message = (
                f"borrows nothing of {name}: all the team's priorities are {NON_PREEMPTIBLE} or more, and "
                "KAI keeps such work within the quota."
            )
            fix = f"let the team use a priority below {NON_PREEMPTIBLE}, or remove it."
            yield Violation(at(path, "borrow", name), message, fix, level="warning")
