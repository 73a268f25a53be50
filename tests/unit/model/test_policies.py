"""Messages of the tenancy policies, and the stacks that have them; tests/integration/tenancy runs their
CEL.
"""

from dataclasses import replace
from typing import Any

import pytest

from muster.model.queues import Allowance
from muster.model.stack import GangAdmission, GangMode, Scheduler, Stack
from muster.render import tenancy
from tests.unit.model.model_stacks import two_teams

LABEL = "metadata.labels["


def _stack(scheduler: Scheduler, mode: GangMode) -> Stack:
    return replace(two_teams(Allowance()), scheduler=scheduler, gang_admission=GangAdmission(mode=mode))


def _messages(some: Stack, name: str) -> list[str]:
    (found,) = [policy for policy, _ in tenancy.policies(some) if policy["metadata"]["name"] == name]
    rules: list[dict[str, Any]] = found["spec"]["validations"]
    return [rule["messageExpression"] for rule in rules]


@pytest.mark.parametrize("mode", GangMode)
@pytest.mark.parametrize("scheduler", Scheduler)
def test_pods_with_gpus_have_the_gate_where_something_removes_it(
    scheduler: Scheduler, mode: GangMode
) -> None:
    gated = any("wait behind the gate" in says for says in _messages(_stack(scheduler, mode), "muster-pods"))
    assert gated == (scheduler is Scheduler.KAI and mode is GangMode.MUSTER)


@pytest.mark.parametrize("scheduler", Scheduler)
def test_a_message_about_a_label_names_its_place_in_a_cron_job(scheduler: Scheduler) -> None:
    told = [says for says in _messages(_stack(scheduler, GangMode.MUSTER), "muster-work") if LABEL in says]
    assert told
    for says in told:
        assert says.count(LABEL) == says.count(f"variables.jobPath + '{LABEL}"), says
