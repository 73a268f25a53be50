"""KAI: shards, the figures of its queues, names, priority classes and topologies, what it cannot express, and
the fields that no other scheduler knows. None of these is ignored silently: each one is a violation.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from muster.model import names
from muster.model.kai import (
    HOSTNAME_LABEL,
    NON_PREEMPTIBLE,
    OWN_CLASSES,
    Figure,
    KaiSettings,
    QueueSettings,
    Sharding,
    Share,
    Shares,
    Topology,
    Unlimited,
    added,
    is_preemptible,
    within,
)
from muster.model.kai.tree import RESOURCES, Node, Partition, nodes, partitions, sharding, value
from muster.model.pools import Sharing
from muster.model.priorities import HIGHEST
from muster.model.programs import PLACEMENTS, Program
from muster.model.quantities import Bytes, Millicores, format_cpu, format_memory
from muster.model.queues import Allowance, Amount, Bound, Queueing, Reclaim, Team, Within
from muster.model.quotas import NOTHING, Unnamed, lending, quota, unnamed, whole
from muster.model.stack import ArtifactSource, GangMode, PodsReady, Stack
from muster.model.violations import Violation, at, suggestion
from muster.validation.identities import bad_name, department_path, explicit_keys, is_dns_label, team_path
from muster.validation.programs import without_effect

_SYSTEM_CLASS: Final = "system-"
# Work names its Queue in a label.
_LONGEST_NAME: Final = 63
_TO_KAI: Final = "remove it, or write `muster:scheduler: kai`."
_TO_KUEUE: Final = "remove it, or write `muster:scheduler: kueue`."


def rules(stack: Stack) -> list[Violation]:
    queues = list(nodes(stack))
    found = [*_artifacts(stack), *_others(stack), *_shards(stack), *_classes(stack)]
    found += [*_sections(stack), *_names(queues)]
    for node in queues:
        found += _figures(node)
    found += [*_parents(queues), *_sums(stack, queues)]
    for topology in stack.kai.topologies:
        found += _topology(topology)
    if stack.kai.cluster_autoscaling and not stack.installs(Program.KAI):
        key = PLACEMENTS[Program.KAI].key
        fix = f"remove it and set it where KAI is installed, or remove `{key}.install: false`."
        found.append(without_effect(at(key, "clusterAutoscaling"), Program.KAI, fix))
    return [*found, *_unsupported(stack)]


def foreign_fields(stack: Stack) -> Iterator[Violation]:
    """Fields that only KAI knows, in a stack of another scheduler."""
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


def _artifacts(stack: Stack) -> Iterator[Violation]:
    if stack.artifacts is ArtifactSource.LOCAL and stack.installs(Program.KAI):
        message = "the local build has no chart of KAI: a local cluster runs KAI's programs itself."
        fix = "add `muster:kai: {install: false}`, and start it with `muster local up --scheduler kai`."
        yield Violation("muster:artifacts", message, fix)


def _others(stack: Stack) -> Iterator[Violation]:
    """A Queue of KAI has figures for gpu, cpu and memory, and no others."""
    for pool in stack.pools:
        if pool.is_gpu and not pool.is_nvidia:
            message = f"KAI counts NVIDIA's GPUs and no {pool.devices}: no queue could hold them."
            yield Violation(f"muster:pools.{pool.name}.machine", message, "use `muster:scheduler: kueue`.")


def _shards(stack: Stack) -> Iterator[Violation]:
    gpu_pools = [pool.name for pool in stack.pools if pool.is_gpu]
    if stack.kai.sharding is Sharding.ONE and len(gpu_pools) > 1:
        message = (
            "a KAI Queue has one GPU figure for all pools: quotas of "
            f"{', '.join(gpu_pools)} could not be distinguished."
        )
        yield Violation("muster:kai.sharding", message, "remove it, or write per-pool.")
    yield from _pool_names(stack, "muster:kai.pools", stack.kai.pools, instead="muster:kai.shard")
    yield from _gpu_sharing(stack)


def _gpu_sharing(stack: Stack) -> Iterator[Violation]:
    """Parts of GPUs by KAI; what its node-scale-adjuster is for (docs/gpu-sharing of KAI 0.17.0)."""
    if stack.kai.cluster_autoscaling and not stack.kai.gpu_sharing:
        message = "does nothing without gpuSharing: it shows an autoscaler pods with a part of a GPU."
        fix = "remove it, or write `gpuSharing: true`; whole GPUs do not need it."
        yield Violation("muster:kai.clusterAutoscaling", message, fix, level="warning")
    if not stack.kai.gpu_sharing:
        return
    # Source: https://github.com/kai-scheduler/KAI-Scheduler, pkg/admission/webhook/v1alpha2/deviceaccess and
    # CHANGELOG.md, read 2026-11-27
    message = (
        "gpu-fraction does not isolate memory: one pod of a shared GPU can take all, and others fail. It "
        "makes nodes obey NVIDIA_VISIBLE_DEVICES, by which containers of any team get all GPUs of a node."
    )
    fix = (
        "let every pod keep to its part by its own settings (vLLM: gpu_memory_utilization); MIG isolates. "
        "Among teams that do not trust each other write `sharing` of the pool in its place."
    )
    yield Violation("muster:kai.gpuSharing", message, fix, level="warning")
    for pool in stack.pools:
        if pool.sharing.kind is not Sharing.NONE:
            message = f"{pool.sharing.kind} and KAI's gpuSharing would each divide the same GPUs."
            fix = "write `sharing: none`, or remove `muster:kai.gpuSharing`."
            yield Violation(f"muster:pools.{pool.name}.sharing", message, fix)


def _pool_names(stack: Stack, path: str, pools: Mapping[str, object], *, instead: str) -> Iterator[Violation]:
    """Pools that a `pools:` names exist, and have shards and queues of their own."""
    for name in pools:
        if stack.pool(name) is None:
            fix = suggestion(name, [pool.name for pool in stack.pools], noun="pool")
            yield Violation(at(path, name), f"pool {name!r} is unknown.", fix)
        elif sharding(stack) is Sharding.ONE:
            message = "all pools share one shard, and every team one Queue."
            yield Violation(at(path, name), message, f"write it in {instead}, or set `sharding: per-pool`.")


def _classes(stack: Stack) -> Iterator[Violation]:
    """What the API server refuses as a PriorityClass, and the one that Muster makes for itself."""
    for priority in stack.priorities:
        path = f"muster:priorities.{priority.name}"
        if priority.value > HIGHEST:
            message = f"is {priority.value}; values above {HIGHEST} are the system's."
            yield Violation(path, message, f"give it at most {HIGHEST}.")
        if priority.name == names.OWN_PRIORITY_CLASS:
            message = "is the class of Muster's own pods."
            yield Violation(path, message, "give the priority another name.")
        if priority.name.startswith(_SYSTEM_CLASS):
            message = f"names that begin with {_SYSTEM_CLASS} are the system's."
            yield Violation(path, message, "give the priority another name.")


def _sections(stack: Stack) -> Iterator[Violation]:
    for above, department in stack.walk():
        yield from _section(stack, department_path((*above, department)), department.kai)
    for chain, team in stack.teams():
        yield from _section(stack, team_path(chain, team), team.kai)


def _section(stack: Stack, path: str, settings: QueueSettings) -> Iterator[Violation]:
    here = at(path, "kai")
    yield from _pool_names(stack, at(here, "pools"), settings.pools, instead=here)
    if settings.shares != Shares() and sharding(stack) is Sharding.PER_POOL:
        for key in RESOURCES:
            if getattr(settings.shares, key) != Share():
                message = "there is a Queue for every pool, and this names none of them."
                yield Violation(at(here, key), message, f"write `pools: {{POOL: {{{key}: ...}}}}`.")


def _names(queues: list[Node]) -> Iterator[Violation]:
    """A Queue's name is the value of a label on all work: unique, with at most 63 characters."""
    seen: dict[str, str] = {}
    for node in queues:
        path = _path(node)
        if node.owner.kai.queue is not None:
            yield from _own_name(at(path, "kai", "queue"), node.name)
        elif node.part.pool is not None and is_dns_label(node.owner.name):
            yield from bad_name(path, node.name, "Queue")
        if node.name in seen:
            message = f"its Queue {node.name!r} is that of {seen[node.name]} as well."
            yield Violation(path, message, "give the team, the department or the pool another name.")
        seen.setdefault(node.name, path)


def _own_name(path: str, name: str) -> Iterator[Violation]:
    """A Queue of another tool may have dots in its name."""
    if len(name) > _LONGEST_NAME or not all(map(is_dns_label, name.split("."))):
        message = f"{name!r} cannot be the name of a Queue."
        fix = f"use at most {_LONGEST_NAME} of a-z, 0-9, - and ., with one of a-z, 0-9 at each end of a part."
        yield Violation(path, message, fix)


def _figures(node: Node) -> Iterator[Violation]:
    """A limit includes the quota: a guarantee that cannot be used is none."""
    for key in RESOURCES:
        figures = node.figures[key]
        if not within(figures.quota, figures.limit):
            message = (
                f"is {_format_figure(key, figures.limit)}, less than the quota of "
                f"{_format_figure(key, figures.quota)}."
            )
            fix = "raise the limit, which counts the quota in, or lower the quota."
            yield Violation(at(_path(node), "kai", *_at(node.part), key, "limit"), message, fix)


def _parents(queues: list[Node]) -> Iterator[Violation]:
    """What children are guaranteed, their parent must have been."""
    below: dict[str, list[Node]] = {}
    for node in queues:
        below.setdefault(node.parent or "", []).append(node)
    for node in (node for node in queues if node.team is None):
        for key in RESOURCES:
            children = [child.figures[key].quota for child in below.get(node.name, ())]
            total = added(children)
            if not within(total, node.figures[key].quota):
                message = (
                    f"is {_format_figure(key, node.figures[key].quota)}; those below have "
                    f"{_format_figure(key, total)}."
                )
                path = at(_path(node), "kai", *_at(node.part), key, "quota")
                yield Violation(
                    path, message, "raise it, or leave it out: it is then the sum of those below."
                )


def _sums(stack: Stack, queues: list[Node]) -> Iterator[Violation]:
    """Quotas in `kai:` sections have to fit the pools, too, where there are any. `unlimited` is allowed."""
    for part in (each for each in partitions(stack) if each.pools):
        tops = [node for node in queues if node.part == part and node.parent is None]
        said = any(
            getattr(node.owner.kai.of(part.pool), key).quota is not None
            for node in queues
            if node.part == part
            for key in RESOURCES
        )
        for key in RESOURCES if said else ():
            total = added([node.figures[key].quota for node in tops])
            most = sum(value(whole(pool), key) for pool in part.pools)
            if not isinstance(total, Unlimited) and total > most:
                message = (
                    f"quotas of {_format_figure(key, total)} exceed the pools' "
                    f"{_format_figure(key, most)} ({part.name})."
                )
                fix = "lower the quotas, raise maxNodes, or guarantee less and let teams go over quota."
                yield Violation("muster:departments", message, fix)


def _topology(topology: Topology) -> Iterator[Violation]:
    path = f"muster:kai.topologies.{topology.name}"
    yield from bad_name(path, topology.name, "topology")
    labels = [level.node_label for level in topology.levels]
    words = [word for level in topology.levels for word in (level.node_label, level.alias) if word]
    for index, level in enumerate(topology.levels):
        here = at(path, "levels", index)
        if level.node_label == HOSTNAME_LABEL and index < len(labels) - 1:
            message = f"{HOSTNAME_LABEL} is a single node, the narrowest there is."
            yield Violation(here, message, "write it last.")
        for word in (level.node_label, level.alias):
            if word is not None and words.count(word) > 1:
                fix = "write each label and alias once."
                yield Violation(here, f"{word!r} is listed twice in the topology.", fix)


def _path(node: Node) -> str:
    return department_path(node.above) if node.team is None else team_path(node.above, node.team)


def _at(part: Partition) -> tuple[str, ...]:
    return () if part.pool is None else ("pools", part.pool)


def _format_figure(key: str, figure: Figure[int]) -> str:
    """An amount as a user writes it."""
    if isinstance(figure, Unlimited):
        return figure.value
    if key == "gpu":
        return f"{figure / 1000:g} GPUs"
    if key == "cpu":
        return f"{format_cpu(Millicores(figure))} CPU"
    return format_memory(Bytes(figure))


# What KAI cannot express.


@dataclass(frozen=True, slots=True)
class _RuleContext:
    stack: Stack
    rest: Unnamed
    parts: tuple[Partition, ...]


def _unsupported(stack: Stack) -> Iterator[Violation]:
    context = _RuleContext(stack, unnamed(stack), partitions(stack))
    yield from (*_serving(stack), *_gangs(stack), *_priorities(stack))
    for above, department in stack.walk():
        path = department_path((*above, department))
        yield from _lending(context, department.allowance, path, weight=None)
        yield from _merged(context, department.allowance, path)
    for chain, team in stack.teams():
        yield from _team(context, team, team_path(chain, team))


def _serving(stack: Stack) -> Iterator[Violation]:
    """Their pods get GPUs where our gate has kept them, by which the policies know that they are queued."""
    served = [kind.family for kind in stack.work_kinds if kind.serves and not stack.is_gated]
    if served:
        message = f"has {', '.join(served)}, whose pods KAI queues behind Muster's gate alone."
        fix = "take it out of the list, or write `muster:gangAdmission: {mode: muster}`."
        yield Violation("muster:work", message, fix)


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
