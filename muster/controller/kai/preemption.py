"""What KAI may take from others to make room for a gang: the rule by which a gang passes without nodes of its
own.

Nodes that other gangs have left come first. For the rest, as KAI 0.12 decides it: an action alone makes all
of the room, and takes whole gangs. *Preempt* takes preemptible work of the same queue with a lower priority
(Source: NVIDIA/KAI-Scheduler v0.12.0, pkg/scheduler/actions/preempt/preempt.go, read 2026-11-27). *Reclaim*
takes preemptible work of queues over their quota for a gang that stays within the quota of its own
(pkg/scheduler/plugins/proportion/reclaimable, read 2026-11-27). The rule asks for more than KAI does: fair
shares beyond quotas, consolidation and other room on nodes without victims are left out. Where it says yes,
KAI starts the gang; where it says no, the gang stays behind its gate. Pure.
"""

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from muster.controller.gangs.objects import Node
from muster.controller.gangs.usage import less
from muster.controller.gangs.verify import PodDemand, is_usable, verify
from muster.controller.kai.ledger import Ledger
from muster.controller.kai.objects import GatedPod, QueueSpec
from muster.controller.kai.queue_capacity import QueueDemand, Turn
from muster.controller.kube.resource import Key
from muster.model.gangpolicy import OverQuota
from muster.model.pods import Amounts
from muster.model.quantities import parse_duration

HOSTNAME = "kubernetes.io/hostname"


class Taking(StrEnum):
    """By what KAI has room for it."""

    NOTHING = "on nodes that another gang has left"
    PREEMPT = "from lower-priority work of its queue"
    RECLAIM = "from work over quota in other queues"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Pods that KAI takes together, and what each queue gets back."""

    pods: tuple[GatedPod, ...]
    demands: tuple[QueueDemand, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningGang:
    """A gang of which KAI has placed pods. `parts`: the minimum, then every pod above it."""

    cluster: Key
    queue: str
    priority: int
    is_preemptible: bool
    parts: tuple[Part, ...]
    started: datetime | None
    """When the last of its pods started; None where one has not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimant:
    """A gang that asks for room. `pods`: what of it needs a node of a pool that has to make room."""

    queue: str
    priority: int
    demands: tuple[QueueDemand, ...]
    pods: tuple[PodDemand, ...]
    holder: Hashable
    turn: Turn | None
    over_quota: OverQuota


@dataclass(frozen=True, slots=True, kw_only=True)
class Rivals:
    """What others run where a gang may go. `nodes` are those of their pods."""

    gangs: tuple[RunningGang, ...] = ()
    nodes: Mapping[str, Node] = field(default_factory=dict)
    used: Mapping[str, Amounts] = field(default_factory=dict)
    in_use: Mapping[str, int] = field(default_factory=dict)
    """Nodes with pods, by pool."""
    left: tuple[Node, ...] = ()
    """Nodes that gangs have left: idle, and brought for no other gang."""
    takers: frozenset[str] = frozenset()
    """Pools where another gang takes room, or is to do so first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption:
    """How KAI makes room for all of a gang. `hosts`: where its pods may go, nodes that exist already, so that
    no autoscaler makes one for them.
    """

    taking: Taking
    hosts: tuple[str, ...]


def preemption_of(claimant: Claimant, rivals: Rivals, ledger: Ledger, *, now: datetime) -> Preemption | None:
    """None where KAI would not make room for all of the gang, or might not. Raises ValueError."""
    for taking, parts in (
        (Taking.NOTHING, ()),
        (Taking.PREEMPT, _lower(claimant, rivals.gangs, ledger, now)),
        (Taking.RECLAIM, _reclaimable(claimant, rivals.gangs, ledger, now)),
    ):
        victims = tuple(parts)
        if (victims or rivals.left) and _has_quota(claimant, victims, ledger):
            hosts = _hosts(claimant, victims, rivals)
            if hosts is not None:
                return Preemption(taking=taking, hosts=hosts)
    return None


def _lower(claimant: Claimant, gangs: Iterable[RunningGang], ledger: Ledger, now: datetime) -> Iterator[Part]:
    for gang in gangs:
        is_lower = gang.queue == claimant.queue and gang.priority < claimant.priority
        if is_lower and gang.is_preemptible and not _is_protected(gang, ledger, now, "preempt_min_runtime"):
            yield from gang.parts


def _reclaimable(
    claimant: Claimant, gangs: Iterable[RunningGang], ledger: Ledger, now: datetime
) -> Iterator[Part]:
    """Of each queue the lowest priority and the youngest first, as long as the queue is over its quota."""
    others = [gang for gang in gangs if gang.queue != claimant.queue and gang.is_preemptible]
    given: list[QueueDemand] = []
    youngest_first = sorted(
        others, key=lambda gang: gang.started.timestamp() if gang.started else math.inf, reverse=True
    )
    for gang in sorted(youngest_first, key=lambda gang: gang.priority):
        below, victim_queue = _below_common(claimant.queue, gang.queue, ledger)
        if (
            not victim_queue
            or _is_protected(gang, ledger, now, "reclaim_min_runtime")
            or not all(_stays_within_quota(claimant, name, ledger) for name in below)
        ):
            continue
        for part in reversed(gang.parts):
            if not ledger.exceeds_quota(victim_queue, given=ledger.by_queue(given)):
                break
            given += part.demands
            yield part


def _below_common(mine: str, other: str, ledger: Ledger) -> tuple[list[str], str]:
    """My queues below the nearest common one, and the highest of the other's below it: KAI compares those."""
    my_path, other_path = list(ledger.ancestry(mine)), list(ledger.ancestry(other))
    below = [name for name in my_path if name not in other_path]
    victims = [name for name in other_path if name not in my_path]
    return below, victims[-1] if below and victims else ""


def _stays_within_quota(claimant: Claimant, name: str, ledger: Ledger) -> bool:
    amounts = ledger.by_queue(claimant.demands).get(name, {})
    demand = QueueDemand(queue=name, amounts=amounts, is_preemptible=True)
    return ledger.is_within_quota(demand, holder=claimant.holder, turn=claimant.turn)


def _is_protected(gang: RunningGang, ledger: Ledger, now: datetime, minimum: str) -> bool:
    """By the longest minimum runtime of its queues. What a shard sets for all queues is not seen."""
    specs = (found.spec for name in ledger.ancestry(gang.queue) if (found := ledger.queue(name)))
    longest = max((_runtime(spec, minimum) for spec in specs), default=timedelta(0))
    return bool(longest) and (gang.started is None or now < gang.started + longest)


def _runtime(spec: QueueSpec, minimum: str) -> timedelta:
    written = str(getattr(spec, minimum))
    try:
        return parse_duration(written) if written else timedelta(0)
    except ValueError:
        return timedelta(days=3650)  # KAI may read what we do not: such work is left alone.


def _has_quota(claimant: Claimant, victims: Sequence[Part], ledger: Ledger) -> bool:
    """Once the victims are gone: room as the policy wants it, and within every limit. KAI takes victims node
    by node, for one pod after another, which does not bring a queue back below a limit that it exceeds.
    """
    if any(map(ledger.exceeds_limit, ledger.ancestry(claimant.queue))):
        return False
    given = ledger.by_queue(demand for part in victims for demand in part.demands)
    as_any = [
        QueueDemand(queue=each.queue, amounts=each.amounts, is_preemptible=True) for each in claimant.demands
    ]
    return all(
        ledger.shortfall(
            demands, holder=claimant.holder, turn=claimant.turn, over_quota=over_quota, given=given
        )
        is None
        for demands, over_quota in ((claimant.demands, claimant.over_quota), (as_any, OverQuota.ALLOW))
    )


def _hosts(claimant: Claimant, victims: Sequence[Part], rivals: Rivals) -> tuple[str, ...] | None:
    """The nodes of the victims, and those that were left, where all of the gang fits once the victims are
    gone; None where it does not.
    """
    if not claimant.pods:
        return ()
    pods = [pod for part in victims for pod in part.pods]
    names = dict.fromkeys(pod.spec.node_name for pod in pods)
    found = (*(rivals.nodes[name] for name in names if name in rivals.nodes), *rivals.left)
    nodes = [node for node in found if HOSTNAME in node.metadata.labels and is_usable(node)]
    placements = verify(claimant.pods, nodes=nodes, used=less(rivals.used, pods))
    if not all(placement.is_complete for placement in placements):
        return None
    return tuple(sorted(node.metadata.labels[HOSTNAME] for node in nodes))
