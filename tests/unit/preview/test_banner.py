"""The banner: for each realistic change, the sentence that a reviewer reads first."""

import re

import pytest

from muster.preview.compare.diff import StackDiff
from muster.preview.document import Table, UntrustedText
from muster.preview.failing import FailOn, failures
from muster.preview.html import format_html
from muster.preview.json_report import to_json
from muster.preview.markdown import format_comment
from muster.preview.report import to_report
from tests.unit.preview.banner_world import cases, changed_stacks, read_case
from tests.unit.preview.preview_world import diff

_CASES = cases()
_FIRST = "smaller-quotas-new-team-new-priority"
_CPU_ONLY = "new-team-without-gpus"


def _diff(name: str, *, backwards: bool = False) -> StackDiff:
    base, head = changed_stacks(name)
    return diff(head, base) if backwards else diff(base, head)


def _banner(found: StackDiff) -> str:
    (record,) = to_json([found])["stacks"]
    return str(record["banner"]["text"])


@pytest.mark.parametrize("name", _CASES)
def test_every_format_begins_with_the_same_banner(name: str) -> None:
    """It is the approved one."""
    found, banner = _diff(name), read_case(name)["banner"]
    assert _banner(found) == banner
    report = to_report([found])
    (stack,) = report.stacks
    first = (span.text if isinstance(span, UntrustedText) else span for span in stack.summary[0])
    assert "".join(first) == banner
    comment, page = format_comment(report), format_html(report)
    assert comment.splitlines()[2].strip("*").replace("`", "") == banner
    shown = page.split("<p class=banner>")[1].partition("</p>")[0]
    assert re.sub("<[^>]+>", "", shown) == banner


def test_only_what_a_stack_file_names_is_a_loss() -> None:
    """The new team takes CPU from the shares of all others: no quota of theirs, and no reason to fail."""
    found = _diff(_CPU_ONLY)
    comment, (record,) = format_comment(to_report([found])), to_json([found])["stacks"]
    shrunk = {each["name"] for each in record["quotas"] if each["derived"] and each["kind"] == "team"}
    assert shrunk == {"data", "notebooks", "speech", "vision"}
    assert "lose quota" not in comment
    assert "loses quota" not in comment
    assert failures([found], [FailOn.LOSS]) == []
    assert failures([_diff("written-cpu-quota")], [FailOn.LOSS]) == [
        "dev: team ranking loses 32 CPU of quota in pool cpu."
    ]


def test_a_comment_shows_the_quota_of_teams_and_folds_the_rest() -> None:
    comment = format_comment(to_report([_diff(_FIRST)]))
    assert [line for line in comment.splitlines() if line.startswith("### ")] == ["### Quota of teams"]
    open_part = comment.partition("<details>")[0]
    assert "| ---: |" in open_part
    assert "`cpu`" not in open_part
    folded = comment.removeprefix(open_part)
    assert "<summary>CPU and memory that follow from other figures</summary>" in folded
    assert "|  |" not in comment, "a column without a head"


def test_cpus_are_whole_numbers_in_tables_of_their_own() -> None:
    report = to_report([_diff(_FIRST)])
    comment = format_comment(report)
    assert not re.search(r"\d{4,}m\b", comment)
    assert "| `notebooks` | `company / product` | `cpu` CPU | 143 → 114 | −29 |" in comment
    for section in report.stacks[0].sections:
        for block in section.blocks:
            if isinstance(block, Table) and "Pool" in block.head and "Team" in block.head:
                at = block.head.index("Pool")
                assert len({str(row[at][-1]) for row in block.rows}) == 1, section.title


def test_a_department_could_use_what_its_teams_lend_to_no_other() -> None:
    """notebooks keeps its 8 to itself, so the company could use 24 of them all, not 16."""
    (company,) = [
        each
        for each in to_json([_diff("unlimited-quota", backwards=True)])["stacks"][0]["quotas"]
        if each["name"] == "company" and each["pool"] == "l4"
    ]
    assert company["after"]["withAllBelow"]["gpus"] == company["after"]["most"] == 24


def test_a_team_without_a_cohort_is_shown_as_what_it_is() -> None:
    found = _diff("no-cohort")
    comment = format_comment(to_report([found]))
    assert "| `optics` | `lab` (cohort: none) | `l4` GPU | 4 | ±0 | 0 | all → 0 |" in comment
    assert "| `department lab: kueue cohort` | `lab` | `none` |" in comment


def test_a_quota_without_a_bound_reads_as_a_change_to_it() -> None:
    row = "| `speech` | `company / research` | `l4` GPU | {} | {} |"
    there, back = (
        format_comment(to_report([_diff("unlimited-quota", backwards=backwards)]))
        for backwards in (False, True)
    )
    assert row.format("8 → unlimited", "to unlimited") in there
    assert row.format("unlimited → 8", "from unlimited") in back
    assert _banner(_diff("unlimited-quota", backwards=True)) == "speech L4 unlimited to 8"


def test_new_preemption_is_a_sentence_with_the_priorities_that_it_needs() -> None:
    comment = format_comment(to_report([_diff("reclaim-by-priority")]))
    assert "\n- `ranking` can now evict `speech`, `vision` on `h100`, `prod` over `dev`.\n" in comment


def test_a_move_to_a_channel_says_what_happens_to_running_work() -> None:
    there, back = (_diff("into-a-channel", backwards=backwards) for backwards in (False, True))
    sentence = "It replaces no running node of a queued pool."
    assert sentence in format_comment(to_report([there]))
    assert sentence not in format_comment(to_report([back]))
