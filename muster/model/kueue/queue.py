"""ClusterQueue and LocalQueue: a team's settings beyond quota, borrowing, lending and weight.

Meanings and defaults are those of apis/kueue/v1beta2/clusterqueue_types.go of Kueue 0.19.2.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Final

from muster.model import names
from muster.model.keys import ANY_INTEGER, Parent, declared
from muster.model.kueue.flavor import Selector
from muster.model.quantities import Quantity
from muster.model.section import Section, describe_value

# Resource groups as Kueue's API has them.
#
# The pools of a queue share one group, because a GPU pod needs its CPU from the node that has its GPU
# (tree.py). Groups of resources that no pool has, such as licences, come after it, each over
# flavors of its own (`muster:kueue.flavors`). Groups that cover CPU, memory or GPUs take its place: the queue
# has these groups and no other.

# What the pools' own group covers at least.
POOL_RESOURCES: Final = ("cpu", "memory", names.GPU_RESOURCE)


def _read_nominal(section: Section, key: str) -> Quantity | None:
    if not section.has(key):
        section.note(key, "is missing.", f"write `{key}:` and its value; 0 is allowed.")
    return section.quantity(key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """Of one resource in one flavor. A limit that is None bounds nothing."""

    name: str = declared("The resource.", example="example.com/license")
    nominal: Quantity = declared("What is guaranteed.", key="nominalQuota", example=10, read=_read_nominal)
    borrowing: Quantity | None = declared(
        "The most that is borrowed.", None, key="borrowingLimit", default_text="no limit", example=5
    )
    lending: Quantity | None = declared(
        "The most that is lent.", None, key="lendingLimit", default_text="no limit", example=5
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorQuota:
    name: str = declared(
        "A ResourceFlavor: a pool's, or one of `muster:kueue.flavors`.", example="on-premises"
    )
    resources: tuple[Quota, ...] = declared("Its quotas.", ())

    @property
    def gpus(self) -> int:
        """The GPUs or TPU chips of the quota."""
        return sum(int(each.nominal.value) for each in self.resources if each.name in names.DEVICE_RESOURCES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Kueue gives a pod one flavor of a group for all of the group's resources."""

    covered_resources: tuple[str, ...] = declared(
        "The resources of the group.", (), example=["example.com/license"]
    )
    flavors: tuple[FlavorQuota, ...] = declared("The flavors of the group.", ())


def replaces_pools(groups: Iterable[Group]) -> bool:
    """Whether these groups take the place of the pools' own."""
    return any(name in POOL_RESOURCES for group in groups for name in group.covered_resources)


# Cohort: the `kueue:` section of a department.

_NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortOptions:
    """A department's `kueue:` section. With `exists=False` (`cohort: none`) the teams' ClusterQueues have no
    cohort.
    """

    name: str | None = declared(
        "The name of the Cohort; `none` for teams that share nothing.",
        None,
        key="cohort",
        default_text="the department's name",
        example="all",
    )
    exists: bool = field(default=True, metadata={"key": "cohort"})
    resource_groups: tuple[Group, ...] = declared("", (), definition="resourceGroups")

    @staticmethod
    def complete(_section: Section, values: dict[str, Any]) -> dict[str, Any]:
        exists = values["name"] != _NONE
        return {**values, "name": values["name"] if exists else None, "exists": exists}


_ALL: Final = "all"


_STOP: Final = "Hold admits nothing more; HoldAndDrain also evicts what runs."


class StopPolicy(StrEnum):
    """Hold admits nothing more; HoldAndDrain evicts what runs as well."""

    NONE = "None"
    HOLD = "Hold"
    HOLD_AND_DRAIN = "HoldAndDrain"


class Search(StrEnum):
    """Whether a flavor that needs borrowing or preemption is used, or the next flavor is tried first."""

    MAY_STOP = "MayStopSearch"
    TRY_NEXT = "TryNextFlavor"


class Preference(StrEnum):
    """Which of two flavors is better: one that needs borrowing, or one that needs preemption."""

    BORROWING = "BorrowingOverPreemption"
    PREEMPTION = "PreemptionOverBorrowing"


class BorrowPreemption(StrEnum):
    NEVER = "Never"
    LOWER_PRIORITY = "LowerPriority"


class AdmissionMode(StrEnum):
    """Whether the LocalQueues of a queue are ordered by what they used before."""

    USAGE_BASED = "UsageBasedAdmissionFairSharing"
    NONE = "NoAdmissionFairSharing"


class Migration(StrEnum):
    """What an admitted workload does when a better flavor becomes free."""

    TRY_PREFERRED = "TryPreferredFlavors"
    RETAIN_FIRST = "RetainFirstAdmission"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fungibility:
    """`preference` belongs to a queue that tries every flavor: both others are TryNextFlavor."""

    when_can_borrow: Search = declared("What happens at a flavor that needs borrowing.", Search.MAY_STOP)
    when_can_preempt: Search = declared("What happens at a flavor that needs preemption.", Search.TRY_NEXT)
    preference: Preference | None = declared(
        "Which of the two is better, where both others are TryNextFlavor.", None, default_text="none"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BorrowWithinCohort:
    """Only work below `max_priority_threshold` is preempted, regardless of the preemptor's priority."""

    policy: BorrowPreemption = declared(
        "Which work it may preempt in order to borrow.", BorrowPreemption.NEVER
    )
    max_priority_threshold: int | None = declared(
        "Only work up to this priority is preempted.",
        None,
        default_text="no threshold",
        example=100,
        **ANY_INTEGER,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcurrentAdmission:
    """Kueue's webhook refuses to add, change or remove it on an existing ClusterQueue or to repoint an
    existing LocalQueue, so only a new team can have it.
    """

    mode: Migration = declared("What admitted work does when a better flavor is free.")
    last_acceptable_flavor: str | None = declared(
        "The last flavor that is tried.", None, key="lastAcceptableFlavorName", example="l4"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckUse:
    """A check of `muster:kueue.admissionChecks` on these pools, on all flavors when empty."""

    name: str
    pools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalQueue:
    """A door of a namespace to the team's ClusterQueue."""

    name: str
    namespaces: tuple[str, ...] | None = declared(
        "The namespaces that have it, with `muster:tenancy.namespaces: existing`; [] is none.",
        None,
        default_text="the team's",
        example=["research", "default"],
    )
    stop_policy: StopPolicy = declared(_STOP, StopPolicy.NONE)
    weight: int | None = declared(
        "Its share, where past use counts.", None, default_text="1", example=2, maximum=1_000_000
    )


def _read_checks(section: Section, key: str) -> tuple[CheckUse, ...]:
    """`{budget: [l4]}`, or `{budget: all}` for every flavor."""
    entries, uses = section.section(key), []
    for name, value in entries.items():
        if value == _ALL:
            uses.append(CheckUse(name=name))
        elif isinstance(value, Sequence) and not isinstance(value, str | Mapping) and value:
            uses.append(CheckUse(name=name, pools=entries.words(name)))
        else:
            fix = "write `all`, or the pools that it applies to: [l4, h100]."
            entries.note(name, f"is {describe_value(value)}.", fix)
    return tuple(uses)


_POOLS_OF_CHECK: Final[dict[str, Any]] = {
    "type": ["object", "null"],
    "additionalProperties": {
        "anyOf": [
            {"type": "string", "enum": [_ALL]},
            {"type": "array", "items": {"type": "string"}, "minItems": 1},
        ]
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOptions:
    """A team's `kueue:` section. An entry of `local_queues` with the name of the team's own changes it."""

    PARENTS: ClassVar = {
        "admissionScope": Parent(
            "How work of its LocalQueues is ordered.", "none", required=("admissionMode",)
        )
    }

    cluster_queue: str | None = declared(
        "The name of the ClusterQueue.", None, default_text="the team's name", example="vision-gpus"
    )
    local_queues: tuple[LocalQueue, ...] = declared(
        "Further LocalQueues, by name.", (), example={"nightly": {"weight": 1}}
    )
    namespace_selector: Selector | None = declared(
        "Namespaces that may use the queue.", None, default_text="the team's namespace"
    )
    stop_policy: StopPolicy = declared(_STOP, StopPolicy.NONE)
    fungibility: Fungibility | None = declared(
        "When the next flavor is tried.", None, key="flavorFungibility", default_text="Kueue's own"
    )
    borrow_within_cohort: BorrowWithinCohort = declared(
        "Whether it preempts in order to borrow.", BorrowWithinCohort()
    )
    admission_mode: AdmissionMode | None = declared(
        "Whether past use orders its LocalQueues.", None, key="admissionScope.admissionMode"
    )
    admission_checks: tuple[CheckUse, ...] = declared(
        "Check: the pools that it applies to, or `all`.",
        (),
        default_text="none",
        example={"budget": ["l4"]},
        read=_read_checks,
        schema=_POOLS_OF_CHECK,
    )
    concurrent_admission: ConcurrentAdmission | None = declared(
        "Admission on every flavor at once (alpha in Kueue).",
        None,
        key="concurrentAdmissionPolicy",
        default_text="none",
    )
    resource_groups: tuple[Group, ...] = declared("", (), definition="resourceGroups")
