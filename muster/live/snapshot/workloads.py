"""The queues of a snapshot, by name and usage, and its Workloads: their queues, requests, and what they were
assigned.

The quotas of the queues come from the stack that is compared.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

# Objects that name a parent of their own kind: none may be its own ancestor in a stack.


def circles(parents: Mapping[str, str]) -> Iterator[str]:
    """The first name of each circle. `parents` has "" at the top; the caller cuts each there."""
    for name in sorted(parents):
        seen, at = {name}, parents[name]
        while at and at not in seen:
            seen.add(at)
            at = parents[at]
        if at:
            yield name


@dataclass(frozen=True, slots=True)
class Usage:
    """What the Workloads of a queue hold of one flavor and resource: `cpu` in millicores, others in whole
    units.

    `flavor` is "" where the scheduler counts without flavors (KAI).
    """

    flavor: str
    resource: str
    amount: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A ClusterQueue of Kueue, or a Queue of KAI. `parent` is its Cohort or parent queue, "" at the top."""

    name: str
    parent: str
    usage: tuple[Usage, ...]


@dataclass(frozen=True, slots=True)
class LocalQueue:
    namespace: str
    name: str
    cluster_queue: str


# Of each resource: `cpu` in millicores, everything else in whole units (bytes, GPUs).
Amounts = Mapping[str, int]


class State(StrEnum):
    """The state of a Workload. A snapshot holds no finished ones, because they hold no quota."""

    INACTIVE = "inactive"
    PENDING = "pending"
    RESERVED = "reserved"
    ADMITTED = "admitted"


@dataclass(frozen=True, slots=True)
class Toleration:
    key: str
    operator: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Expression:
    """A requirement on a node's label."""

    key: str
    operator: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Term:
    """Expressions that all have to match. Of several terms, one has to match."""

    expressions: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition without its message."""

    type: str
    status: str
    reason: str
    since: datetime | None


@dataclass(frozen=True, slots=True)
class Job:
    """The owner of the Workload, such as `RayJob/train`."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSet:
    """Equal pods. `requests` are those of one pod; the selectors decide which flavors fit.

    `flavors` (resource to flavor) and `usage` (of all pods together) are what it was assigned; empty while it
    is pending. `assigned` is the number of admitted pods, which partial admission makes smaller than `count`.
    """

    name: str
    count: int
    requests: Amounts
    min_count: int | None = None
    node_selector: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    tolerations: tuple[Toleration, ...] = ()
    terms: tuple[Term, ...] = ()
    assigned: int | None = None
    flavors: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    usage: Amounts = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """`queue` is a LocalQueue of its namespace; `cluster_queue` is "" until quota is reserved."""

    namespace: str
    name: str
    queue: str
    created: datetime
    pod_sets: tuple[PodSet, ...]
    state: State
    priority: int = 0
    priority_class: str = ""
    cluster_queue: str = ""
    job: Job | None = None
    conditions: tuple[Condition, ...] = ()

    def since(self, kind: str) -> datetime | None:
        """When a condition became true; None while it is not."""
        return next(
            (each.since for each in self.conditions if each.type == kind and each.status == "True"), None
        )

    @property
    def is_holding(self) -> bool:
        """Whether it holds quota."""
        return self.state in (State.RESERVED, State.ADMITTED)


# Pod groups of KAI with their pods, and the nodes on which they run or could run.
# KAI decides by nodes, not by quota alone, so a snapshot for it has both.


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """`room`: what pods of pod groups may take: its allocatable amounts without what other pods request."""

    name: str
    room: Amounts
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    taints: tuple[Taint, ...] = ()
    is_cordoned: bool = False
    is_ready: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPod:
    """`node`: where it runs or is about to run, "" while it waits. `gates`: its scheduling gates.

    `sharing`: the annotations of KAI by which it has a part of a GPU. `gpu_groups`: the GPUs that it shares.
    """

    name: str
    requests: Amounts
    node: str = ""
    is_ending: bool = False
    sub_group: str = ""
    gates: tuple[str, ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    tolerations: tuple[Toleration, ...] = ()
    terms: tuple[Term, ...] = ()
    sharing: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    gpu_groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SubGroup:
    name: str
    min_member: int
    parent: str = ""
    topology: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


def least(min_member: int, of_parts: Iterable[int]) -> int:
    """Pods without which a gang does not start: of the gang, or of its subgroups together."""
    return max(min_member, sum(of_parts), 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroup:
    """A gang as KAI sees it. `partition`: the pool that it carries as label, "" for none.

    `started` and `stale`: since when it runs, and since when it lacks pods of its minimum, by KAI's record.
    `topology`: its constraint, with KAI's names.
    """

    namespace: str
    name: str
    queue: str
    created: datetime
    pods: tuple[GroupPod, ...]
    min_member: int = 1
    sub_groups: tuple[SubGroup, ...] = ()
    priority_class: str = ""
    preemptibility: str = ""
    partition: str = ""
    topology: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    started: datetime | None = None
    stale: datetime | None = None
    job: Job | None = None

    @property
    def label(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def least(self) -> int:
        return least(self.min_member, (each.min_member for each in self.sub_groups))

    @property
    def is_running(self) -> bool:
        """Whether a pod of it has a node."""
        return any(each.node and not each.is_ending for each in self.pods)
