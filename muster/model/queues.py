"""The queue tree: departments nest to any depth, and teams are the leaves.

Responsible for a team's guaranteed quota, what it may borrow and lend, and its weight for free capacity.
Not responsible for the arithmetic (quotas.py) nor for checks (muster.validation).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from muster.model import names
from muster.model.kai import QueueSettings
from muster.model.kueue import CohortOptions, QueueOptions
from muster.model.quantities import Bytes, Gpus, Millicores, Quantity
from muster.model.tenancy import Access


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """A part of a pool. GPU pools are counted in `gpus`, CPU pools in `cpu`; what is None derives from the
    machine. `others` are resources that no machine table knows (`rdma/hca`, `ephemeral-storage`): of what is
    not named here there is none. `is_unlimited`: a quota without a bound, in which case nothing else is set.
    """

    gpus: Gpus | None = None
    cpu: Millicores | None = None
    memory: Bytes | None = None
    others: Mapping[str, Quantity] = field(default_factory=lambda: MappingProxyType({}))
    is_unlimited: bool = False


class Bound(StrEnum):
    """A limit that needs no number."""

    NONE = "none"
    ALL = "all"


Share = Amount | Bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """How much may be borrowed or lent: `pools` by name, `otherwise` for pools it does not name.

    `otherwise=None` means the default of the limit: borrow no GPUs and any free CPU, lend everything.
    """

    otherwise: Bound | None = None
    pools: Mapping[str, Share] = field(default_factory=lambda: MappingProxyType({}))

    def of(self, pool: str) -> Share | None:
        return self.pools.get(pool, self.otherwise)


class Within(StrEnum):
    """Which running work of the same team a waiting job may preempt."""

    NEVER = "never"
    LOWER_PRIORITY = "lower-priority"
    LOWER_OR_NEWER = "lower-or-newer-equal-priority"


class Reclaim(StrEnum):
    """Which borrowed work of other teams a team may preempt to get its own quota back."""

    NEVER = "never"
    LOWER_PRIORITY = "lower-priority"
    ANY = "any"


class Queueing(StrEnum):
    """best-effort: a job that fits may start before an older one that does not. strict: never."""

    BEST_EFFORT = "best-effort"
    STRICT = "strict"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption:
    """A quota is a guarantee, so its owner reclaims it from any work that borrows it: `reclaim` is `any` by
    default.
    """

    within: Within = Within.LOWER_PRIORITY
    reclaim: Reclaim = Reclaim.ANY


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """The quota, borrowing and lending of a team or a department. A department's quota is shared by all teams
    below it.
    """

    quota: Mapping[str, Amount] = field(default_factory=lambda: MappingProxyType({}))
    borrow: Limit = Limit()
    lend: Limit = Limit()
    weight: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """`priorities` are the names that the team may use, all of the stack's when empty.

    `namespace` is the first of its namespaces. Work of all of them is in one queue: the team's own, or with
    `queue` that of another team of its department, with the quota and the rules of that one.
    """

    name: str
    namespace: str
    further_namespaces: tuple[str, ...] = ()
    queue: str | None = None
    allowance: Allowance = Allowance()
    priorities: tuple[str, ...] = ()
    local_queue: str = names.DEFAULT_LOCAL_QUEUE
    preemption: Preemption = Preemption()
    queueing: Queueing = Queueing.BEST_EFFORT
    kai: QueueSettings = field(default_factory=QueueSettings)
    kueue: QueueOptions = field(default_factory=QueueOptions)
    access: Access = field(default_factory=Access)

    @property
    def namespaces(self) -> tuple[str, ...]:
        return (self.namespace, *self.further_namespaces)

    @property
    def weight(self) -> int:
        return 1 if self.allowance.weight is None else self.allowance.weight


@dataclass(frozen=True, slots=True, kw_only=True)
class Department:
    """A node of the tree. Two top-level departments share nothing.

    To share between departments, nest them in a common department.
    """

    name: str
    allowance: Allowance = Allowance()
    departments: tuple["Department", ...] = ()
    teams: tuple[Team, ...] = ()
    kai: QueueSettings = field(default_factory=QueueSettings)
    kueue: CohortOptions = field(default_factory=CohortOptions)

    @property
    def owners(self) -> tuple[Team, ...]:
        """The teams with a queue of their own."""
        return tuple(team for team in self.teams if team.queue is None)

    def walk(
        self, above: tuple["Department", ...] = ()
    ) -> Iterator[tuple[tuple["Department", ...], "Department"]]:
        """This department and all below it, parents first, each with the chain of its parents."""
        yield above, self
        for child in self.departments:
            yield from child.walk((*above, self))
