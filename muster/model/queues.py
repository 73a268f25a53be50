"""The queue tree: departments nest to any depth, and teams are the leaves.

Responsible for a team's guaranteed quota, what it may borrow and lend, and its weight for free capacity.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from muster.model import names
from muster.model.gangpolicy import IdlePolicy
from muster.model.kai import QueueSettings
from muster.model.keys import declared
from muster.model.kueue import CohortOptions, QueueOptions
from muster.model.quantities import Bytes, Gpus, Millicores, Quantity
from muster.model.section import Section
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
    """A quota is a guarantee, so its owner reclaims it by default from any work that borrows it."""

    within: Within = declared("Work of the same team.", Within.LOWER_PRIORITY)
    reclaim: Reclaim = declared("Work of other teams that borrows its quota.", Reclaim.ANY)


_LIMIT: Final = "amounts by pool, `all` or `none`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """The quota, borrowing and lending of a team or a department. A department's quota is shared by all teams
    below it.
    """

    quota: Mapping[str, Amount] = declared(
        "What is guaranteed, by pool: GPUs of a GPU pool, CPUs of a CPU pool, or unlimited for no bound.",
        {},
        example={"l4": 4, "cpu": 16},
        schema={
            "type": ["object", "null"],
            "additionalProperties": {
                "anyOf": [{"$ref": "#/$defs/amount"}, {"type": "string", "enum": ["unlimited"]}]
            },
        },
    )
    borrow: Limit = declared(
        f"The most it may borrow of unused quota: {_LIMIT}.", Limit(), definition="limit", example={"l4": 2}
    )
    lend: Limit = declared(
        f"The most it lends of its own quota: {_LIMIT}.",
        Limit(),
        definition="limit",
        default_text="all",
        example={"l4": 2},
    )
    weight: int | None = declared(
        "Its share of free capacity.", None, default_text="1", example=2, minimum=1, maximum=1_000_000
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """`namespace` is the first of its namespaces. Work of all of them is in one queue, with `queue` under the
    quota and the rules of that other team. `priorities` empty: all of the stack's.
    """

    name: str
    allowance: Allowance = declared(
        "",
        Allowance(),
        is_inline=True,
        default_texts={
            "quota": "no GPUs, and its share by weight of the CPU pools",
            "borrow": "no GPUs, and any free CPU",
        },
    )
    namespace: str = declared(
        "The namespace of its work.", is_derived=True, default_text="its name", example="vision"
    )
    further_namespaces: tuple[str, ...] = declared(
        "Several namespaces of its work, in place of `namespace`, with one queue.",
        (),
        key="namespaces",
        default_text="one",
        example=["vision", "vision-ci"],
    )
    queue: str | None = declared(
        "Another team of its department, whose queue and quota its work uses in place of its own.",
        None,
        default_text="its own queue",
        example="vision",
    )
    priorities: tuple[str, ...] = declared(
        "The priorities that it may use.", (), default_text="all", example=["prod", "dev"]
    )
    local_queue: str = declared("The name of its LocalQueue.", names.DEFAULT_LOCAL_QUEUE, example="gpus")
    preemption: Preemption = declared("Which running work it may preempt.", Preemption())
    queueing: Queueing = declared(
        "Whether a job that fits may start before an older one that does not.", Queueing.BEST_EFFORT
    )
    idle: IdlePolicy | None = declared(
        "What happens when no GPU of a gang in its queue does anything.", None, default_text="nothing"
    )
    kai: QueueSettings = declared("Its Queue in KAI's own terms.", QueueSettings(), definition="kaiQueue")
    kueue: QueueOptions = declared("Its ClusterQueue in Kueue's own terms.", QueueOptions())
    access: Access = declared("", Access(), is_inline=True)

    @staticmethod
    def complete(section: Section, values: dict[str, Any]) -> dict[str, Any]:
        if not values["kai"].exists:
            fix = "remove it, or write the name of the Queue."
            section.note("kai.queue", "is for departments: a team's work needs a Queue.", fix)
        one, several = values["namespace"], values["further_namespaces"]
        if one is not None and section.has("namespaces"):
            section.note("namespaces", "is written beside `namespace`.", "keep one of the two.")
        first, *further = several or (one or values["name"],)
        return {**values, "namespace": first, "further_namespaces": tuple(further)}

    @property
    def namespaces(self) -> tuple[str, ...]:
        return (self.namespace, *self.further_namespaces)

    @property
    def weight(self) -> int:
        return 1 if self.allowance.weight is None else self.allowance.weight


@dataclass(frozen=True, slots=True, kw_only=True)
class Department:
    """A node of the tree. Two top-level departments share nothing; to share, nest them in a common one."""

    name: str
    allowance: Allowance = declared(
        "",
        Allowance(),
        is_inline=True,
        default_texts={"quota": "nothing of its own", "borrow": "as much as its teams may"},
    )
    departments: tuple["Department", ...] = declared(
        "Departments below this one, by name.",
        (),
        definition="department",
        example={"vision": {"teams": {"ocr": {"quota": {"l4": 2}}}}},
    )
    teams: tuple[Team, ...] = declared(
        "Its teams, by name.", (), definition="team", example={"vision": {"quota": {"l4": 4}}}
    )
    kai: QueueSettings = declared("Its Queue in KAI's own terms.", QueueSettings(), definition="kaiQueue")
    kueue: CohortOptions = declared("Its Cohort in Kueue's own terms.", CohortOptions())

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
