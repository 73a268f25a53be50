"""GangPolicy: how gangs get their capacity, in which order, for how long, and what happens otherwise."""

from muster.model.gangpolicy.crd import crd
from muster.model.gangpolicy.durations import DURATION_PATTERN, format_duration, parse_duration
from muster.model.gangpolicy.manifest import to_manifest
from muster.model.gangpolicy.policy import (
    DetailSelector,
    FlavorPolicy,
    GangPolicy,
    KaiPolicy,
    OnStaggered,
    OnStockOut,
    OverQuota,
    RetryPolicy,
)
from muster.model.gangpolicy.reader import from_spec, unknown_fields
from muster.model.gangpolicy.rules import violations

__all__ = [
    "DURATION_PATTERN",
    "DetailSelector",
    "FlavorPolicy",
    "GangPolicy",
    "KaiPolicy",
    "OnStaggered",
    "OnStockOut",
    "OverQuota",
    "RetryPolicy",
    "crd",
    "format_duration",
    "from_spec",
    "parse_duration",
    "to_manifest",
    "unknown_fields",
    "violations",
]
