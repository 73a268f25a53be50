"""ClusterQueue and LocalQueue: a team's settings beyond quota, borrowing, lending and weight.

Meanings and defaults are those of apis/kueue/v1beta2/clusterqueue_types.go of Kueue 0.19.2.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from muster.model.kueue.groups import Group
from muster.model.kueue.selector import Selector


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
    """Whom a queue may preempt in order to borrow."""

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

    when_can_borrow: Search = Search.MAY_STOP
    when_can_preempt: Search = Search.TRY_NEXT
    preference: Preference | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BorrowWithinCohort:
    """Only work below `max_priority_threshold` is preempted, regardless of the preemptor's priority."""

    policy: BorrowPreemption = BorrowPreemption.NEVER
    max_priority_threshold: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcurrentAdmission:
    """Alpha in 0.19: admission is tried on every flavor at once. Kueue's webhook refuses to add, change or
    remove it on an existing ClusterQueue or to repoint an existing LocalQueue, so only a new team can have
    it.
    """

    mode: Migration
    last_acceptable_flavor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckUse:
    """A check of `muster:kueue.admissionChecks` on these pools, on all flavors when empty."""

    name: str
    pools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalQueue:
    """A door of a namespace to the team's ClusterQueue. `weight` counts with admission mode UsageBased.
    `namespaces` None is the team's own; with an empty tuple no namespace has it.
    """

    name: str
    namespaces: tuple[str, ...] | None = None
    stop_policy: StopPolicy = StopPolicy.NONE
    weight: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOptions:
    """A team's `kueue:` section. `cluster_queue` is the ClusterQueue's name, the team's when None.

    `local_queues` are in addition to the team's own; an entry of the same name changes it.
    `namespace_selector` is the team's own namespace when None.
    """

    cluster_queue: str | None = None
    local_queues: tuple[LocalQueue, ...] = ()
    namespace_selector: Selector | None = None
    stop_policy: StopPolicy = StopPolicy.NONE
    fungibility: Fungibility | None = field(default=None, metadata={"key": "flavorFungibility"})
    borrow_within_cohort: BorrowWithinCohort = BorrowWithinCohort()
    admission_mode: AdmissionMode | None = field(default=None, metadata={"key": "admissionScope"})
    admission_checks: tuple[CheckUse, ...] = ()
    concurrent_admission: ConcurrentAdmission | None = field(
        default=None, metadata={"key": "concurrentAdmissionPolicy"}
    )
    resource_groups: tuple[Group, ...] = ()
