"""Eviction with KAI follows its published rules."""

from dataclasses import replace

from muster.config import load
from muster.model.kai import UNLIMITED, QueueSettings, Share, Shares
from muster.model.priorities import Priority
from muster.model.queues import Allowance, Bound, Department, Limit, Team
from muster.model.stack import Scheduler, Stack
from muster.preview.compare.diff import compare
from muster.preview.compare.kai import KaiRules
from muster.preview.compare.preemption_rules import Right
from tests.unit.model.model_stacks import CPU, L4, gpus, stack, team
from tests.unit.preview.preview_world import ROOT

_TRAIN, _INFERENCE = Priority(50, "train"), Priority(125, "inference")
_OWNER = Allowance(quota={"l4": gpus(2)})
_BORROWER = Allowance(quota={"l4": gpus(1)}, borrow=Limit(pools={"l4": Bound.ALL}))
_GUEST = Allowance(borrow=Limit(pools={"l4": Bound.ALL}))


def _kai(*departments: Department) -> Stack:
    plain = stack(*departments, pools=(CPU, L4))
    return replace(plain, scheduler=Scheduler.KAI, priorities=(_TRAIN, _INFERENCE))


def _teams(first: Allowance, second: Allowance, *, theirs: tuple[str, ...] = ()) -> Stack:
    teams = (team("team-a", first), team("team-b", second, priorities=theirs))
    return _kai(Department(name="research", teams=teams))


def _rights(found: Stack, one: str = "team-a", two: str = "team-b") -> Right | None:
    return KaiRules.of(found).rights(one, two).get("l4")


def test_a_quota_is_reclaimed_from_teams_that_may_exceed_theirs() -> None:
    found = _teams(_OWNER, _BORROWER)
    assert _rights(found) is Right.RECLAIM
    assert _rights(found, "team-b", "team-a") is None, "what is within a quota is never reclaimed"


def test_work_of_a_hundred_and_more_never_gives_way() -> None:
    assert _rights(_teams(_OWNER, _BORROWER, theirs=("inference",))) is None


def test_two_without_quota_share_what_is_free() -> None:
    assert _rights(_teams(_GUEST, _BORROWER)) is Right.FAIR
    assert _rights(_teams(_GUEST, _BORROWER), "team-b", "team-a") is Right.RECLAIM


def test_non_preemptible_work_cannot_reclaim_beyond_its_quota() -> None:
    found = _teams(_BORROWER, _GUEST, theirs=("inference",))
    assert _rights(found, "team-b", "team-a") is None


def test_departments_at_the_top_take_nothing_from_each_other_unless_one_is_opened() -> None:
    one = Department(name="one", teams=(team("team-a", _OWNER),))
    two = Department(name="two", teams=(team("team-b", _BORROWER),))
    assert _rights(_kai(one, two)) is None
    opened = QueueSettings(shares=Shares(gpu=Share(limit=UNLIMITED)))
    assert _rights(_kai(one, replace(two, kai=opened))) is Right.RECLAIM


def test_a_department_without_a_queue_is_no_step_of_a_chain() -> None:
    """The quota of the queue that both teams are below does not count as one of them."""
    missing = Department(name="inner", teams=(team("team-a", _GUEST),), kai=QueueSettings(exists=False))
    found = Department(name="top", departments=(missing,), teams=(team("team-b", _BORROWER),))
    assert _rights(_kai(found)) is Right.FAIR


def test_an_unlimited_quota_is_never_exceeded() -> None:
    endless = QueueSettings(shares=Shares(gpu=Share(quota=UNLIMITED)))
    teams: tuple[Team, ...] = (team("team-a", _OWNER), replace(team("team-b"), kai=endless))
    assert _rights(_kai(Department(name="research", teams=teams))) is None


def test_inside_a_team_lower_work_gives_way_if_it_may_be_evicted() -> None:
    found = KaiRules.of(_teams(_OWNER, _OWNER, theirs=("inference",)))
    assert found.can_preempt_within("team-a")
    assert not found.can_preempt_within("team-b")


def test_the_report_shows_whose_gpus_inference_can_take() -> None:
    """Story D: the report has it before the merge."""
    after = load(ROOT / "examples" / "stories" / "inference-first" / "stack.yaml")
    (department,) = after.departments
    teams = tuple(replace(each, priorities=("train",)) for each in department.teams)
    before = replace(after, departments=(replace(department, teams=teams),))
    rows = [row for row in compare(before, after).preemption if row.right is None]
    assert [(row.preemptors, row.is_new) for row in rows] == [(("team-a",), True)]
