"""The `kueue:` sections: fields of Kueue's queue API (0.19.2, v1beta2) that a stack's short form does not
cover.

Names and values of fields are Kueue's, so that its documentation applies. Every field has a default.
"""

from muster.model.kueue.checks import AdmissionCheck, Parameters, Provisioning, RequestConfig
from muster.model.kueue.flavor import (
    Effect,
    Flavor,
    Operator,
    PoolOptions,
    Selector,
    SelectorOperator,
    Taint,
    Toleration,
    Topology,
)
from muster.model.kueue.manager import UNCOUNTED, KueueOptions, UsageSharing
from muster.model.kueue.queue import (
    POOL_RESOURCES,
    AdmissionMode,
    BorrowPreemption,
    BorrowWithinCohort,
    CheckUse,
    CohortOptions,
    ConcurrentAdmission,
    FlavorQuota,
    Fungibility,
    Group,
    LocalQueue,
    Migration,
    Preference,
    QueueOptions,
    Quota,
    Search,
    StopPolicy,
    replaces_pools,
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
    "Flavor",
    "FlavorQuota",
    "Fungibility",
    "Group",
    "KueueOptions",
    "LocalQueue",
    "Migration",
    "Operator",
    "Parameters",
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
    "Taint",
    "Toleration",
    "Topology",
    "UsageSharing",
    "replaces_pools",
]
