"""The rules that a stack must hold: pure functions from the stack to its violations.

    check(stack)  every rule

Readers of these are the config loader, the policy pack, the preview and the webhooks; the paths are config
paths.
"""

from muster.model.stack import Stack
from muster.model.violations import Violation
from muster.validation.amounts import amount_rules
from muster.validation.charts import chart_rules
from muster.validation.clusters import cluster_rules
from muster.validation.identities import cloud_identity_rules
from muster.validation.identity import identity_rules
from muster.validation.kai import kai_rules
from muster.validation.kueue import kueue_rules
from muster.validation.observability import observability_rules
from muster.validation.pools import pool_rules
from muster.validation.priorities import priority_rules
from muster.validation.scheduler_support import switch_rules
from muster.validation.sharing import sharing_rules
from muster.validation.tenancy import tenancy_rules

__all__ = [
    "amount_rules",
    "chart_rules",
    "check",
    "cluster_rules",
    "identity_rules",
    "kueue_rules",
    "pool_rules",
    "priority_rules",
]


def check(stack: Stack) -> list[Violation]:
    """Every violation of the stack, in the order of its sections."""
    return [
        *cluster_rules(stack),
        *pool_rules(stack),
        *sharing_rules(stack),
        *priority_rules(stack),
        *identity_rules(stack),
        *tenancy_rules(stack),
        *cloud_identity_rules(stack),
        *amount_rules(stack),
        *kueue_rules(stack),
        *chart_rules(stack),
        *observability_rules(stack),
        *kai_rules(stack),
        *switch_rules(stack),
    ]
