"""A Workload of a snapshot: its queue, its requests, and what it was assigned."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

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
