"""What a stack may say to Kueue in Kueue's own words: the `kueue:` sections.

Decides the typed fields of Kueue's queue API (0.19.2, v1beta2) that have no word of their own in the short
form of a stack. Names of fields and their values are Kueue's, so that its documentation is theirs. Every
field has a default: a stack that says nothing of this is complete. Leaves quota, borrowing, lending, weight,
priorities and the order of a queue to the short form (queues.py), and spelling it all to render/kueue.
"""

from muster.model.kueue.checks import AdmissionCheck, Parameters, PodSetMerge, Provisioning
from muster.model.kueue.cohort import CohortOptions
from muster.model.kueue.flavor import Effect, Flavor, Operator, PoolOptions, Taint, Toleration, Topology
from muster.model.kueue.groups import FlavorQuota, Group, Quota
from muster.model.kueue.manager import KueueOptions, Strategy, UsageSharing
from muster.model.kueue.queue import (
    AdmissionMode,
    BorrowPreemption,
    BorrowWithinCohort,
    CheckUse,
    ConcurrentAdmission,
    Fungibility,
    LocalQueue,
    Migration,
    Preference,
    QueueOptions,
    Search,
    StopPolicy,
)
from muster.model.kueue.selector import Expression, Selector, SelectorOperator

__all__ = [
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
    "Search",
    "Selector",
    "SelectorOperator",
    "StopPolicy",
    "Strategy",
    "Taint",
    "Toleration",
    "Topology",
    "UsageSharing",
]
