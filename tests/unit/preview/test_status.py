"""The answer that a reviewer gets first: yes, look, refused, or nothing changes."""

from dataclasses import replace

import pytest

from muster.model.queues import Allowance, Bound, Department, Limit
from muster.model.stack import Stack
from muster.preview.compare.diff import StackDiff
from muster.preview.compare.replay import ReplayDiff
from muster.preview.document import Answer, Status, TreeDiagram
from muster.preview.failing import FailOn, failures
from muster.preview.html import format_html
from muster.preview.json_report import to_json
from muster.preview.markdown import format_comment
from muster.preview.report import to_report, to_stack_report
from muster.replay.figures import Figures, Waits
from tests.unit.model.model_stacks import CPU, L4, gpus, stack, team
from tests.unit.preview.banner_world import cases, changed_stacks
from tests.unit.preview.preview_world import diff, figures, plan, step

# These need a plan or a snapshot.
_NEED_MORE = (FailOn.REPLACE, FailOn.OVERUSE)


def _stack(first: int, *, teams: int = 40) -> Stack:
    """Teams with 2 GPUs each, of which the first and the last have `first`."""
    return stack(
        *(
            Department(
                name=f"department-{half}",
                teams=tuple(
                    team(
                        f"team-{half}{index:02}",
                        Allowance(
                            quota={
                                "l4": gpus(first if (half, index) in ((0, 0), (1, teams // 2 - 1)) else 2)
                            },
                            borrow=Limit(otherwise=Bound.ALL),
                        ),
                    )
                    for index in range(teams // 2)
                ),
            )
            for half in (0, 1)
        ),
        pools=(CPU, replace(L4, max_nodes=100)),
    )


def _status(found: StackDiff) -> Status:
    status = to_stack_report(found).status
    assert status is not None
    return status


def test_more_quota_for_teams_that_have_some_is_a_yes() -> None:
    found = diff(_stack(2), _stack(4))
    assert _status(found) == Status(Answer.YES, "no team loses, and no team can newly evict another")
    assert failures([found], [each for each in FailOn if each not in _NEED_MORE]) == []


def test_less_quota_has_to_be_looked_at() -> None:
    found = diff(_stack(4), _stack(2))
    assert _status(found) == Status(Answer.LOOK, "2 losses")
    assert failures([found], [FailOn.LOOK]) == ["dev: a person has to look at the change: 2 losses."]


@pytest.mark.parametrize("name", cases())
def test_of_the_realistic_changes_only_a_team_without_gpus_is_a_yes(name: str) -> None:
    wanted = Answer.YES if name == "new-team-without-gpus" else Answer.LOOK
    assert _status(diff(*changed_stacks(name))).answer is wanted


def test_more_guaranteed_than_the_pool_has_is_no_yes() -> None:
    assert _status(diff(_stack(4), _stack(20))).why == "1 pool with more guaranteed than there is"


def test_a_preview_that_failed_is_refused_and_no_change_is_none() -> None:
    assert _status(diff(_stack(2), _stack(4), plan(errors=("no",)))).answer is Answer.REFUSED
    assert _status(diff(_stack(2), _stack(2))).answer is Answer.NOTHING
    assert _status(diff(_stack(2), _stack(4), plan(step("delete")))).answer is Answer.LOOK


@pytest.mark.parametrize(("p95", "answer"), [(30.0, Answer.YES), (3_600.0, Answer.LOOK)])
def test_a_team_that_waits_longer_in_the_replay_is_no_yes(p95: float, answer: Answer) -> None:
    base, head = (_replayed(p95=each) for each in (0.0, p95))
    replay = ReplayDiff(start=0.0, end=86_400.0, played=1, base=base, head=head)
    assert _status(replace(diff(_stack(2), _stack(4)), replay=replay)).answer is answer


def test_jobs_that_never_start_and_a_replay_of_nothing_are_no_yes() -> None:
    base = _replayed(p95=0.0)
    stuck = replace(base, teams={"team-000": Waits(jobs=62, never=2, p50=0.0, p95=0.0)})
    nothing = replace(base, jobs=0, teams={})
    for played, sides in ((1, (base, stuck)), (0, (nothing, nothing)), (1, (base, nothing))):
        replay = ReplayDiff(start=0.0, end=86_400.0, played=played, base=sides[0], head=sides[1])
        found = replace(diff(_stack(2), _stack(4)), replay=replay)
        assert _status(found).answer is Answer.LOOK
        assert len(failures([found], [FailOn.LOOK])) == 1


def _replayed(*, p95: float) -> Figures:
    return figures({"team-000": Waits(jobs=1, never=0, p50=0.0, p95=p95)})


def test_every_format_has_the_same_answer() -> None:
    found = diff(_stack(4), _stack(2))
    (record,) = to_json([found])["stacks"]
    assert record["status"] == {"answer": "look", "why": "2 losses"}
    report = to_report([found])
    assert format_comment(report).startswith("## Muster preview: `dev` · ⚠️ Needs review\n")
    badge = "<strong class='badge look'>Needs review</strong>"
    assert f"{badge}<span class=why>2 losses</span>" in format_html(report)


def test_of_forty_teams_the_tree_draws_the_two_that_change() -> None:
    found = to_stack_report(diff(_stack(4), _stack(2)))
    (tree,) = [block for each in found.sections for block in each.blocks if isinstance(block, TreeDiagram)]
    drawn = [[node.name.text for node in department.children] for department in tree.roots]
    assert drawn == [["team-000"], ["team-119"]]
    assert [len(department.folded) for department in tree.roots] == [19, 19]
    report = to_report([diff(_stack(4), _stack(2))])
    page, comment = format_html(report), format_comment(report)
    assert page.count("<summary>19 queues unchanged</summary>") == 2
    assert "team-007" in page, "it can be unfolded"
    assert comment.count('["19 queues unchanged"]') == 2
    assert "team-007" not in comment.partition("```mermaid")[2].partition("```")[0]


def test_a_reader_that_draws_no_mermaid_gets_the_tree_as_text() -> None:
    comment = format_comment(to_report([diff(_stack(4), _stack(2))]), is_drawn=False)
    assert "mermaid" not in comment
    assert (
        "```text\ndepartment-0\n  team-000 (less): l4 4 → 2\n  (19 queues unchanged)\ndepartment-1\n"
        in comment
    )
