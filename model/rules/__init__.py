"""The rules that a stack must hold: pure functions from the stack to its violations.

    check(stack)  every rule

Readers of these are the config loader, the policy pack, the preview and the webhooks; the paths are config
paths.
"""

from model.rules.amounts import amount_rules
from model.rules.charts import chart_rules
from model.rules.clusters import cluster_rules
from model.rules.identities import cloud_identity_rules
from model.rules.identity import identity_rules
from model.rules.kai import kai_rules
from model.rules.kueue import kueue_rules
from model.rules.observability import observability_rules
from model.rules.pools import pool_rules
from model.rules.priorities import priority_rules
from model.rules.sharing import sharing_rules
from model.rules.switch import switch_rules
from model.rules.tenancy import tenancy_rules
from model.stack import Stack
from model.violations import Violation

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
