"""What the comparison relies on in the rules of any scheduler."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings

from muster.model.kueue.tree import Tree, to_tree
from muster.model.stack import Scheduler, Stack
from muster.preview.compare.preemption import rules_of
from muster.preview.compare.preemption_rules import Rules
from tests.length import examples
from tests.unit.model.model_stacks import stacks

_FEW = settings(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.too_slow])
_KINDS = pytest.mark.parametrize("scheduler", list(Scheduler))


def _rules(stack: Stack, scheduler: Scheduler) -> Rules:
    found = replace(stack, scheduler=scheduler)
    return rules_of(found, to_tree(found))


@_KINDS
@_FEW
@given(stacks())
def test_the_rules_know_every_team_with_a_queue_and_no_other(scheduler: Scheduler, stack: Stack) -> None:
    rules = _rules(stack, scheduler)
    teams = {team.name for _, team in stack.owners()}
    assert set(rules.profiles) == teams
    for team in teams:
        assert rules.rights(team, "no-such-team") == {}
        assert rules.rights("no-such-team", team) == {}
    assert not rules.can_preempt_within("no-such-team")


@_KINDS
@_FEW
@given(stacks())
def test_teams_with_equal_profiles_have_equal_rights(scheduler: Scheduler, stack: Stack) -> None:
    rules = _rules(stack, scheduler)
    for one, two in product(rules.profiles, repeat=2):
        if rules.profiles[one] != rules.profiles[two]:
            continue
        assert rules.can_preempt_within(one) is rules.can_preempt_within(two)
        for other in {*rules.profiles} - {one, two}:
            assert rules.rights(one, other) == rules.rights(two, other)
            assert rules.rights(other, one) == rules.rights(other, two)


def test_a_stack_that_does_not_exist_has_no_teams() -> None:
    assert not rules_of(None, Tree()).profiles
