"""`check` runs the rules that it lists, and every scheduler has a renderer."""

import inspect
import pkgutil
from collections.abc import Iterator
from importlib import import_module

import pytest

import muster.validation
from muster.model.stack import Scheduler, Stack
from muster.render import kai, kueue, queues
from muster.validation import STACK_RULES, check
from muster.validation.clusters import identity_of, placeholder_rules
from muster.validation.tenancy import unowned_rules
from tests.unit.model.model_stacks import CPU, GKE


def _rules_of_a_stack() -> Iterator[object]:
    """Every function of the room, outside of packages below it, that judges a whole stack."""
    for module in pkgutil.iter_modules(muster.validation.__path__):
        found = import_module(f"muster.validation.{module.name}")
        for name, function in inspect.getmembers(found, inspect.isfunction):
            is_own = function.__module__ == found.__name__
            if (
                name.endswith("_rules")
                and is_own
                and list(inspect.signature(function).parameters) == ["stack"]
            ):
                yield function


def test_check_runs_every_rule_of_a_stack() -> None:
    # What is not filled in yet may still be read; `muster validate` reports it.
    assert set(_rules_of_a_stack()) - {placeholder_rules, unowned_rules} <= set(STACK_RULES)


def test_check_compares_the_stack_with_adjacent_stacks() -> None:
    stack = Stack(cluster=GKE, pools=(CPU,), departments=())
    same = identity_of(GKE)
    assert same is not None
    assert check(stack, adjacent={}) == []
    assert [each.path for each in check(stack, adjacent={"other": same})] == ["muster:cluster.name"]


@pytest.mark.parametrize(("scheduler", "package"), [(Scheduler.KUEUE, kueue), (Scheduler.KAI, kai)])
def test_the_stacks_scheduler_chooses_the_renderer(scheduler: Scheduler, package: object) -> None:
    stack = Stack(cluster=GKE, pools=(CPU,), departments=(), scheduler=scheduler)
    assert queues.renderer(stack) is package
    kinds = [each["kind"] for each in queues.objects(stack)]
    assert "ResourceFlavor" in kinds if scheduler is Scheduler.KUEUE else "SchedulingShard" in kinds
