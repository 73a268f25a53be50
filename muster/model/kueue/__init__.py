"""The `kueue:` sections: fields of Kueue's queue API (0.19.2, v1beta2) that a stack's short form does not
cover.

Names and values of fields are Kueue's, so that its documentation applies. Every field has a default.
"""

from muster.model.kueue.checks import AdmissionCheck, Parameters, PodSetMerge, Provisioning, RequestConfig
from muster.model.kueue.flavor import (
    Effect,
    Expression,
    Flavor,
    Operator,
    PoolOptions,
    Selector,
    SelectorOperator,
    Taint,
    Toleration,
    Topology,
)
from muster.model.kueue.groups import POOL_RESOURCES, FlavorQuota, Group, Quota, replaces_pools
from muster.model.kueue.manager import UNCOUNTED, KueueOptions, Strategy, UsageSharing
from muster.model.kueue.queue import (
    AdmissionMode,
    BorrowPreemption,
    BorrowWithinCohort,
    CheckUse,
    CohortOptions,
    ConcurrentAdmission,
    Fungibility,
    LocalQueue,
    Migration,
    Preference,
    QueueOptions,
    Search,
    StopPolicy,
)

__all__ = [
    "POOL_RESOURCES",
    "UNCOUNTED",
    "AdmissionCheck",
    "AdmissionMode",
    "BorrowPreemption",
    "BorrowWithinCohort",
    "CheckUse",
    "CohortOptions",
    "ConcurrentAdmission",
    "Effect",
    "Expression",
    "Flavor",
    "FlavorQuota",
    "Fungibility",
    "Group",
    "KueueOptions",
    "LocalQueue",
    "Migration",
    "Operator",
    "Parameters",
    "PodSetMerge",
    "PoolOptions",
    "Preference",
    "Provisioning",
    "QueueOptions",
    "Quota",
    "RequestConfig",
    "Search",
    "Selector",
    "SelectorOperator",
    "StopPolicy",
    "Strategy",
    "Taint",
    "Toleration",
    "Topology",
    "UsageSharing",
    "replaces_pools",
]
