"""What the tenancy policies say, and in which stacks; their CEL is tried in tests/integration/tenancy."""

from dataclasses import replace
from typing import Any

import pytest

from muster.model.queues import Allowance
from muster.model.stack import GangAdmission, GangMode, Scheduler, Stack
from muster.render import tenancy
from tests.unit.model.model_stacks import two_teams

NO_GPUS = "a batch Job may not ask for GPUs here"
LABEL = "metadata.labels["


def _stack(scheduler: Scheduler, mode: GangMode) -> Stack:
    return replace(two_teams(Allowance()), scheduler=scheduler, gang_admission=GangAdmission(mode=mode))


def _messages(some: Stack, name: str) -> list[str]:
    (found,) = [policy for policy, _ in tenancy.policies(some) if policy["metadata"]["name"] == name]
    rules: list[dict[str, Any]] = found["spec"]["validations"]
    return [rule["messageExpression"] for rule in rules]


@pytest.mark.parametrize("mode", GangMode)
@pytest.mark.parametrize("scheduler", Scheduler)
def test_batch_jobs_may_ask_for_gpus_but_where_their_pods_would_wait_at_a_gate(
    scheduler: Scheduler, mode: GangMode
) -> None:
    some = _stack(scheduler, mode)
    refused = any(NO_GPUS in says for says in _messages(some, "muster-work"))
    gated = any("wait behind the gate" in says for says in _messages(some, "muster-pods"))
    assert refused == gated == (scheduler is Scheduler.KAI and mode is GangMode.MUSTER)


@pytest.mark.parametrize("scheduler", Scheduler)
def test_whoever_is_told_of_a_label_is_told_where_a_cron_job_has_it(scheduler: Scheduler) -> None:
    told = [says for says in _messages(_stack(scheduler, GangMode.MUSTER), "muster-work") if LABEL in says]
    assert told
    for says in told:
        assert says.count(LABEL) == says.count(f"variables.jobPath + '{LABEL}"), says
