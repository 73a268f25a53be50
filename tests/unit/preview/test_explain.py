"""`muster diff --explain TEAM`: what a change means for one team, with the figures of the whole report."""

import json
from pathlib import Path

import pytest

from muster.cli import main
from muster.model.queues import Allowance, Bound, Department, Limit
from muster.preview.compare.diff import StackDiff
from muster.preview.explain import explain, explain_to_json
from muster.preview.html import format_html
from muster.preview.inputs import InputError
from muster.preview.json_report import to_json
from muster.preview.markdown import format_comment
from tests.unit.model.model_stacks import gpus, stack, team
from tests.unit.preview.banner_world import cases, changed_stacks, changed_texts
from tests.unit.preview.preview_world import diff

_FIRST = "smaller-quotas-new-team-new-priority"


def _first() -> StackDiff:
    return diff(*changed_stacks(_FIRST), name="prod")


def test_a_team_that_loses_reads_what_it_keeps_and_who_can_evict_it() -> None:
    text = format_comment(explain([_first()], "vision"))
    key = "muster:departments.company.departments.research.teams.vision.quota.h100"
    for line in (
        "**`vision` loses 8 GPU of `h100`: 32 → 24 guaranteed.**",
        "- `robotics` can newly evict its work.",
        "| `h100` GPU | 32 → 24 | −8 | 16 | all | 48 → 40 |",
        f"- `h100`: the quota is written under `{key}`.",
        "- `h100`: at most 40 is 24 guaranteed and 16 borrowed, bounded by its own borrowing limit; "
        "idle quota may come from `ranking` (up to 16), `speech` (up to 16), `robotics` (up to 8).",
        "| new | `robotics` | `cpu`, `h100` | reclaims its quota |",
        "| as before | `ranking` | `cpu`, `h100` | reclaims its quota |",
    ):
        assert f"{line}\n" in text
    assert "vision" in format_html(explain([_first()], "vision"))


@pytest.mark.parametrize("name", cases())
def test_the_figures_are_those_of_the_report(name: str) -> None:
    found = diff(*changed_stacks(name))
    (record,) = to_json([found])["stacks"]
    assert found.changes is not None
    for row in record["quotas"]:
        if row["kind"] != "team" or row["pool"] == "cpu" or row["name"] in found.changes.after.guests:
            continue
        (explained,) = explain_to_json([found], row["name"])["stacks"]
        (pool,) = [each for each in explained["pools"] if each["pool"] == row["pool"]]
        for side in ("before", "after"):
            wanted = row[side] and {"guaranteed": row[side]["quota"]["gpus"], "most": row[side]["most"]}
            assert pool[side] == wanted


@pytest.mark.parametrize("name", cases())
def test_new_evictions_are_those_of_the_report(name: str) -> None:
    found = diff(*changed_stacks(name))
    assert found.changes is not None
    before, after = found.changes.before, found.changes.after
    teams = {
        name for name in before.team_names | after.team_names if name not in {*before.guests, *after.guests}
    }
    (record,) = to_json([found])["stacks"]
    wanted = {
        (who, whom, pool, row["new"])
        for row in record["preemption"]
        if row["right"] != "priority within the team"
        for who in row["preemptors"]
        for whom in teams.intersection(row["victims"])
        if who != whom
        for pool in row["pools"]
    }
    explained = {
        (each["team"], name, pool, each["now"])
        for name in teams
        for each in explain_to_json([found], name)["stacks"][0]["evictedBy"]
        if each["was"] is not each["now"]
        for pool in each["pools"]
    }
    assert explained == wanted


def test_a_department_that_lends_nothing_lets_no_quota_of_its_teams_through() -> None:
    borrower = team("borrower", Allowance(borrow=Limit(otherwise=Bound.ALL)))
    lender = team("lender", Allowance(quota={"l4": gpus(4)}))
    closed = Department(name="closed", allowance=Allowance(lend=Limit(otherwise=Bound.NONE)), teams=(lender,))
    opened = Department(name="opened", teams=(team("other", Allowance(quota={"l4": gpus(2)})), borrower))
    one = stack(Department(name="all", departments=(closed, opened)))
    (record,) = explain_to_json([diff(one, one)], "borrower")["stacks"]
    (pool,) = [each for each in record["pools"] if each["pool"] == "l4"]
    assert pool["after"]["most"] == 2
    assert pool["lenders"] == [{"team": "other", "most": 2}]


def test_a_team_without_a_cohort_reads_that_it_shares_with_no_other() -> None:
    text = format_comment(explain([diff(*changed_stacks("no-cohort"))], "optics"))
    assert "0 borrowed, because its department shares with no other (cohort: none).\n" in text


def test_an_unknown_team_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(InputError, match=r"no such team. Fix: did you mean 'vision'"):
        explain([_first()], "visoin")


def test_the_command_explains_in_place_of_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base, head = (tmp_path / side / "Pulumi.prod.yaml" for side in ("base", "head"))
    for path, text in zip((base, head), changed_texts(_FIRST), strict=True):
        path.parent.mkdir()
        path.write_text(text, encoding="utf-8")
    assert main(["diff", str(head), "--base", str(base), "--explain", "vision"]) == 0
    assert capsys.readouterr().out.startswith("## Muster preview: `vision in prod`\n")
    assert main(["diff", str(head), "--base", str(base), "--explain", "vision", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["stacks"][0]["team"] == "vision"
