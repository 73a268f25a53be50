"""Pod groups of KAI with their pods, and the nodes on which they run or could run.

KAI decides by nodes, not by quota alone, so a snapshot for it has both.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType

from muster.live.snapshot.workloads import Amounts, Job, Term, Toleration


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
