"""What `muster diff --fail-on` fails on, and when a report is not usable."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from muster.live.snapshot import Queue, Snapshot, Usage
from muster.model.queues import Allowance, Bound, Department, Limit
from muster.model.stack import Scheduler, Stack
from muster.model.violations import Violation
from muster.preview.compare.diff import LoadedSide, StackDiff, diff_stack
from muster.preview.failing import FailOn, HeadError, failures, require_valid_heads
from muster.preview.report import to_stack_report
from tests.unit.model.model_stacks import gpus, stack, team, two_teams
from tests.unit.preview.preview_world import diff, plan, step


def _quota(first: int, second: int = 1) -> Stack:
    return two_teams(Allowance(quota={"l4": gpus(first)}), Allowance(quota={"l4": gpus(second)}))


def _broken(*, base: bool = False, head: bool = False) -> StackDiff:
    def side(is_broken: bool) -> LoadedSide:
        mistakes = (Violation("line 3: muster:pools", "wrong.", "mend it."),) if is_broken else ()
        return LoadedSide(exists=True, stack=None if is_broken else _quota(1), mistakes=mistakes)

    return diff_stack("dev", side(base), side(head))


def test_a_team_that_loses_quota_is_a_loss_and_one_that_gains_is_none() -> None:
    found = failures([diff(_quota(4), _quota(2))], [FailOn.LOSS])
    assert found == ["dev: team team-a loses 2 GPU of quota in pool l4."]
    assert failures([diff(_quota(2), _quota(4))], [FailOn.LOSS]) == []
    assert failures([diff(_quota(4), _quota(2))], []) == []


def test_a_removed_team_is_a_loss_and_is_listed_once() -> None:
    head = stack(Department(name="research", teams=(team("team-b", Allowance(quota={"l4": gpus(1)})),)))
    assert failures([diff(_quota(4), head)], [FailOn.LOSS]) == ["dev: team team-a is removed."]


def test_a_loss_in_kai_is_found_too() -> None:
    base, head = (replace(_quota(number), scheduler=Scheduler.KAI) for number in (4, 2))
    assert failures([diff(base, head)], [FailOn.LOSS]) == [
        "dev: team team-a loses 2 GPU of quota in pool l4."
    ]


def test_new_preemption_fails_and_lost_preemption_does_not() -> None:
    owner, borrower = Allowance(quota={"l4": gpus(4)}), Allowance(borrow=Limit(otherwise=Bound.ALL))
    before, after = two_teams(Allowance(), borrower), two_teams(owner, borrower)
    gained = failures([diff(before, after)], [FailOn.PREEMPTION])
    assert gained == ["dev: team-a can newly preempt team-b in pool l4 (reclaims its quota)."]
    assert failures([diff(after, before)], [FailOn.PREEMPTION]) == []


def test_what_cannot_be_compared_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.preview.compare.preemption._MAX_PAIRS", 1)
    owner, borrower = Allowance(quota={"l4": gpus(4)}), Allowance(borrow=Limit(otherwise=Bound.ALL))
    (found,) = failures(
        [diff(two_teams(Allowance(), borrower), two_teams(owner, borrower))], [FailOn.PREEMPTION]
    )
    assert "cannot tell whether preemption changes" in found
    for kind in (FailOn.LOSS, FailOn.PREEMPTION):
        (found,) = failures([_broken(base=True)], [kind])
        assert "a stack file does not validate" in found


def test_replaced_and_deleted_resources_fail_and_what_base_does_as_well_does_not() -> None:
    head = plan(step("replace", "disk"), step("delete", "rule"), step("update", "queue"))
    found = failures([diff(_quota(1), _quota(1), head)], [FailOn.REPLACE])
    assert found == [
        "dev: kubernetes:core/v1:Secret disk is replaced.",
        "dev: kubernetes:core/v1:Secret rule is deleted.",
    ]
    same = replace(diff(_quota(1), _quota(1), head), base_plan=head)
    assert failures([same], [FailOn.REPLACE]) == []


def test_a_plan_that_failed_fails_because_it_is_not_complete() -> None:
    found = failures([diff(_quota(1), _quota(1), plan(errors=("no quota",)))], [FailOn.REPLACE])
    assert found == ["dev: the preview failed, so it does not list every resource that changes."]


def test_without_a_plan_of_head_replace_cannot_be_decided() -> None:
    with pytest.raises(HeadError, match=r"dev has no plan of head.*Fix: "):
        failures([diff(_quota(1), _quota(1))], [FailOn.REPLACE])
    assert failures([diff(_quota(1), None)], [FailOn.REPLACE]) == [], "a stack that goes has no plan"


def test_every_stack_and_every_kind_is_checked() -> None:
    stacks = [diff(_quota(4), _quota(2), plan(step("replace", "disk")), name=name) for name in ("a", "b")]
    found = failures(stacks, [each for each in FailOn if each is not FailOn.OVERUSE])
    assert [each.partition(":")[0] for each in found] == ["a", "a", "a", "b", "b", "b"]


def test_a_team_that_uses_more_than_it_keeps_fails_and_nothing_known_is_no_pass() -> None:
    queues = (Queue(name="team-a", parent="", usage=(Usage("l4", "nvidia.com/gpu", 3),)),)
    now = Snapshot(taken=datetime(2026, 11, 21, tzinfo=UTC), scheduler=Scheduler.KUEUE, queues=queues)
    found = failures([diff(_quota(4), _quota(2), snapshot=now)], [FailOn.OVERUSE])
    assert found == ["dev: team team-a uses 3 GPU of pool l4 now, and keeps 2."]
    assert failures([diff(_quota(4), _quota(3), snapshot=now)], [FailOn.OVERUSE]) == []
    with pytest.raises(HeadError, match="Fix: add --snapshot dev=FILE"):
        failures([diff(_quota(4), _quota(2))], [FailOn.OVERUSE])


def test_a_head_that_does_not_validate_is_refused_and_a_base_is_not() -> None:
    with pytest.raises(
        HeadError, match=r"does not validate: dev .1 mistake[)].*line 3.*Fix: .*muster validate"
    ):
        require_valid_heads([diff(_quota(1), _quota(1), name="sound"), _broken(head=True)])
    require_valid_heads([_broken(base=True), diff(_quota(1), None)])


def test_foreign_names_cannot_write_a_second_line() -> None:
    found = failures([diff(_quota(4), _quota(2), name="dev\n::error::x")], [FailOn.LOSS])
    assert all("\n" not in each for each in found)


EKS_GROUP, GKE_POOL = "aws:eks/nodeGroup:NodeGroup", "gcp:container/nodePool:NodePool"


def _change(op: str, kind: str, *fields: str) -> StackDiff:
    changed = step(op, "ml-h100", kind=kind, detailedDiff={each: {"kind": op} for each in fields})
    return diff(_quota(1), _quota(1), plan(changed))


@pytest.mark.parametrize(
    ("kind", "field", "words"),
    [
        (EKS_GROUP, "launchTemplate.version", "15 minutes for running work"),
        (EKS_GROUP, "version", "15 minutes for running work"),
        (GKE_POOL, "nodeConfig.machineType", "an hour for running work"),
    ],
)
def test_a_change_that_rolls_a_pool_fails_and_is_reported_with_what_happens_to_work(
    kind: str, field: str, words: str
) -> None:
    changed = _change("update", kind, field)
    (found,) = failures([changed], [FailOn.REPLACE])
    assert found.startswith("dev: ml-h100: its nodes are drained and replaced")
    assert words in found
    assert "Nodes replaced" in [each.title for each in to_stack_report(changed).sections]


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        (EKS_GROUP, "scalingConfig.maxSize"),
        (GKE_POOL, "autoscaling.totalMaxNodeCount"),
        (GKE_POOL, "versions"),
    ],
)
def test_a_change_that_keeps_the_nodes_of_a_pool_does_not_fail(kind: str, field: str) -> None:
    changed = _change("update", kind, field)
    assert failures([changed], [FailOn.REPLACE]) == []
    assert "Nodes replaced" not in [each.title for each in to_stack_report(changed).sections]


def test_a_pool_that_is_replaced_loses_its_work_and_is_named_once() -> None:
    changed = _change("replace", EKS_GROUP, "instanceTypes")
    assert failures([changed], [FailOn.REPLACE]) == [f"dev: {EKS_GROUP} ml-h100 is replaced."]
    assert "Nodes replaced" in [each.title for each in to_stack_report(changed).sections]
