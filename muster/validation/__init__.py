"""The rules that a stack has to keep: pure functions from the stack to its violations.

    check(stack, adjacent=...)        every rule of STACK_RULES, duplicate_cluster_rules, read_version_rules
                                      and, with a day, support_rules
    check_incomplete(stack)           the rules that need neither the cluster nor the pools

Responsible for which rules make up a check.

Every path in a violation is a config path.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import date
from typing import Final, Protocol

from muster.model.stack import Scheduler, Stack
from muster.model.violations import Violation
from muster.validation import kai, kueue
from muster.validation.amounts import amount_rules
from muster.validation.clusters import ClusterIdentity, cluster_rules, duplicate_cluster_rules
from muster.validation.identities import cloud_identity_rules, identity_rules
from muster.validation.machines import gpudirect_rules
from muster.validation.pools import pool_rules
from muster.validation.programs import (
    budget_rules,
    chart_rules,
    idle_rules,
    observability_rules,
    program_rules,
    recording_rules,
)
from muster.validation.provisioners import compute_class_rules, gang_word_rules, provisioner_rules
from muster.validation.shared_queues import shared_queue_rules, sharing_rules
from muster.validation.tenancy import priority_rules, tenancy_rules
from muster.validation.versions import read_version_rules, support_rules, version_rules

__all__ = ["STACK_RULES", "check", "check_incomplete"]


class SchedulerRules(Protocol):
    """What a scheduler's room judges. The two rooms themselves have this shape."""

    def rules(self, stack: Stack, /) -> Iterable[Violation]: ...

    def foreign_fields(self, stack: Stack, /) -> Iterable[Violation]:
        """Fields that only this scheduler knows, in a stack of another one."""


ROOMS: Final[Mapping[Scheduler, SchedulerRules]] = {Scheduler.KUEUE: kueue, Scheduler.KAI: kai}


def scheduler_rules(stack: Stack) -> list[Violation]:
    foreign = (room for scheduler, room in ROOMS.items() if scheduler is not stack.scheduler)
    return [
        *ROOMS[stack.scheduler].rules(stack),
        *(each for room in foreign for each in room.foreign_fields(stack)),
    ]


STACK_RULES: Final[tuple[Callable[[Stack], Iterable[Violation]], ...]] = (
    cluster_rules,
    pool_rules,
    gang_word_rules,
    provisioner_rules,
    compute_class_rules,
    gpudirect_rules,
    sharing_rules,
    priority_rules,
    identity_rules,
    shared_queue_rules,
    tenancy_rules,
    cloud_identity_rules,
    amount_rules,
    scheduler_rules,
    chart_rules,
    version_rules,
    observability_rules,
    recording_rules,
    budget_rules,
    idle_rules,
    program_rules,
)
"""Every rule that needs nothing but the stack, in the order in which violations are reported."""


def check(
    stack: Stack, *, adjacent: Mapping[str, ClusterIdentity], today: date | None = None, name: str = ""
) -> list[Violation]:
    """Every violation of the stack called `name`. `adjacent` maps the name of every other stack to its
    cluster; without `today` nothing is said about the support of its Kubernetes version.
    """
    found = [violation for rule in STACK_RULES for violation in rule(stack)]
    support = () if today is None else support_rules(stack, today=today)
    found += read_version_rules(stack, name=name)
    return [*found, *duplicate_cluster_rules(stack.cluster, adjacent), *support]


def check_incomplete(stack: Stack) -> list[Violation]:
    """The violations of a stack whose cluster or pools could not be read. Amounts are not checked: compared
    with the wrong pools they would mislead.
    """
    return [*priority_rules(stack), *identity_rules(stack)]
