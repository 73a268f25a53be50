"""Protection: what costs a day to get back is not deleted by a slip."""

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Final

from pulumi_policy import Severity

from muster.model.names import PRODUCTION
from muster.policies.registered import Resource
from muster.policies.rule import Case, Finding, Rule, Threshold

_CLUSTERS: Final = ("gcp:container/cluster:Cluster", "aws:eks/cluster:Cluster")
_KEYS: Final = ("gcp:kms/cryptoKey:CryptoKey", "aws:kms/key:Key")
_POOLS: Final = ("gcp:container/nodePool:NodePool", "aws:eks/nodeGroup:NodeGroup")


def protected(case: Case) -> Iterator[Finding]:
    """Clusters, keys and pools on reserved capacity of the stacks that the organisation names."""
    if not any(fnmatchcase(case.stack_name, pattern) for pattern in case.settings["stacks"]):
        return
    for resource in case.registered.resources:
        if _is_precious(resource) and not resource.is_protected:
            yield Finding(f"{resource.name} is not protected.", resource.urn)


def _is_precious(resource: Resource) -> bool:
    return resource.type in (*_CLUSTERS, *_KEYS) or (resource.type in _POOLS and _is_reserved(resource))


def _is_reserved(pool: Resource) -> bool:
    """Capacity that was paid for ahead: a pool deleted by a slip may not get it back."""
    affinity = pool.at("nodeConfig", "reservationAffinity", "consumeReservationType")
    return (
        affinity in ("SPECIFIC_RESERVATION", "ANY_RESERVATION") or pool.at("capacityType") == "CAPACITY_BLOCK"
    )


RULES: Final = (
    Rule(
        name="protect-prod",
        description="Clusters, keys and reserved pools of production are protected.",
        why="A cluster, a key or a reservation that was deleted by mistake may not come back.",
        judge=protected,
        severity=Severity.HIGH,
        remediation="write `protect: true` under muster:cluster.",
        url="https://www.pulumi.com/docs/iac/concepts/options/protect/",
        thresholds={
            "stacks": Threshold(list(PRODUCTION), {"type": "array", "items": {"type": "string"}}),
        },
    ),
)
