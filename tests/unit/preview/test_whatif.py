"""The input and the report of a what-if. The decisions are tested with the real Kueue."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from muster.cli import main
from muster.config import parse
from muster.live.snapshot import State, kueue
from muster.model.stack import Stack
from muster.preview import markdown
from muster.preview.html import format_html
from muster.preview.whatif import report as comparison_report
from muster.preview.whatif.kueue import queue_objects
from muster.preview.whatif.report import Comparison
from muster.preview.whatif.scenario import Decision, Outcome, WorkloadState, synthetic_snapshot
from muster.render.kueue import deciding_config
from muster.replay import stored
from tests.unit.preview.preview_world import ROOT

_AT = datetime(2026, 1, 1, tzinfo=UTC)
STACK: Stack = parse(
    {
        "cluster": {"provider": "existing", "name": "lab", "context": "lab"},
        "pools": {
            "cpu": {"machine": "local-cpu", "minNodes": 1, "maxNodes": 1},
            "l4": {"accelerator": "nvidia-l4", "machine": "local-l4", "capacity": "queued", "maxNodes": 8},
        },
        "priorities": {"prod": 1000, "dev": 100},
        "departments": {
            "research": {"teams": {"team-a": {"quota": {"l4": 6}}, "team-b": {"quota": {"l4": 2}}}}
        },
    },
    source="lab",
)


def _outcome(*decisions: Decision, is_settled: bool = True, seconds: float = 1.0) -> Outcome:
    listed = {each.label: each for each in decisions}
    return Outcome(decisions=listed, used={}, is_settled=is_settled, seconds=seconds)


def _compared(base: Outcome, head: Outcome | None = None) -> Comparison:
    """`head`: as base, where it is not given."""
    return Comparison(name="lab", base=base, head=head or base, base_stack=STACK, head_stack=STACK)


def _text(compared: Comparison) -> str:
    return markdown.format_comment(comparison_report.to_report(compared))


def test_made_up_work_is_the_same_each_time_and_runs_within_the_quotas() -> None:
    made = synthetic_snapshot(STACK, running=100, pending=30)
    assert made == synthetic_snapshot(STACK, running=100, pending=30)
    held: dict[str, int] = {}
    for each in made.workloads:
        if each.is_holding:
            held[each.namespace] = held.get(each.namespace, 0) + each.pod_sets[0].usage["nvidia.com/gpu"]
    assert held == {"team-a": 6, "team-b": 2}
    assert sum(not each.is_holding for each in made.workloads) == 30


def test_made_up_work_fills_queues_and_flavors_of_other_names() -> None:
    (department,), pools = STACK.departments, STACK.pools
    teams = tuple(
        replace(team, kueue=replace(team.kueue, cluster_queue=f"{team.name}-cq")) for team in department.teams
    )
    named = replace(
        STACK,
        departments=(replace(department, teams=teams),),
        pools=tuple(replace(pool, kueue=replace(pool.kueue, flavor=f"flavor-{pool.name}")) for pool in pools),
    )
    made = [each for each in synthetic_snapshot(named, running=100, pending=0).workloads if each.is_holding]
    assert sum(each.pod_sets[0].usage["nvidia.com/gpu"] for each in made) == 8
    assert {each.cluster_queue for each in made} == {"team-a-cq", "team-b-cq"}
    assert {each.pod_sets[0].flavors["nvidia.com/gpu"] for each in made} == {"flavor-l4"}


def test_a_stored_workload_is_read_back_as_what_it_was() -> None:
    for before in synthetic_snapshot(STACK, running=10, pending=10).workloads:
        after = kueue.to_workload(json.loads(stored.value(before)))
        assert after is not None
        assert replace(after, conditions=()) == replace(before, conditions=())


def test_pending_work_is_stored_without_a_status() -> None:
    waiting = [
        each
        for each in synthetic_snapshot(STACK, running=0, pending=5).workloads
        if each.state is State.PENDING
    ]
    assert waiting
    assert all(json.loads(stored.value(each))["status"] == {} for each in waiting)


def test_checks_are_left_out_and_nothing_times_out() -> None:
    queues = [each for each in queue_objects(STACK) if each["kind"] == "ClusterQueue"]
    assert queues
    assert not [each for each in queues if "admissionChecksStrategy" in each["spec"]]
    assert deciding_config(STACK)["waitForPodsReady"]["timeout"] == "8760h"


@given(st.text(min_size=1, max_size=60), st.text(max_size=60))
def test_foreign_names_and_reasons_stay_text(name: str, why: str) -> None:
    decision = Decision(
        namespace="team-a",
        name=name,
        state=WorkloadState.PENDING,
        why=f"<script>{why}",
        preemptor=name,
        how="x",
    )
    answer = _compared(replace(_outcome(decision), used={("team-a", "default"): {"l4": 1}}))
    page, text = format_html(comparison_report.to_report(answer)), _text(answer)
    assert "<script>" not in page.partition("<body")[2].partition("<script")[0]
    assert "`<script>" in text or "<script>" not in text
    json.dumps(comparison_report.to_json(answer))


@pytest.mark.parametrize("wrong", ["--seconds=0", "--seconds=nan"])
def test_a_figure_that_is_none_is_refused_before_anything_starts(
    wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stack = str(ROOT / "stacks" / "Pulumi.local.yaml")
    arguments = ["what-if", stack, "--base", stack, "--synthetic", "1+1", "--duration", "2h", wrong]
    assert main(arguments) == 2
    assert "Fix: " in capsys.readouterr().err


def test_reasons_are_listed_with_their_teams() -> None:
    decisions = [
        Decision(namespace=f"team-{index}", name="one", state=WorkloadState.PENDING, why="no GPU")
        for index in range(7)
    ]
    text = _text(_compared(_outcome(*decisions)))
    assert "| 7 | `team-0`, `team-1`, `team-2`, `team-3`, `team-4` and 2 more | `no GPU` |" in text


def test_an_unfinished_simulation_is_reported() -> None:
    text = _text(_compared(_outcome(is_settled=False, seconds=600.0)))
    assert "Kueue was not done with head after 600 s" in text


def test_teams_with_a_different_outcome_come_first() -> None:
    runs = Decision(namespace="team-b", name="two", state=WorkloadState.RUNNING)
    base, head = (
        _outcome(Decision(namespace="team-a", name="one", state=fate), runs)
        for fate in (WorkloadState.PENDING, WorkloadState.ADMITTED)
    )
    differently, same = _text(_compared(base, head)).split("Teams with the same outcome")
    assert "| `team-a` | 0 | 0 → 1 | 0 | 1 → 0 |" in differently
    assert "| `team-b` | 1 | 0 | 0 | 0 |" in same
    assert "team-b" not in differently


def test_a_queue_that_drains_is_not_played_and_the_report_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It evicts its work, which Kueue's controllers do and its scheduler does not."""
    monkeypatch.setattr("muster.replay.player.ensure_player", lambda: tmp_path / "none")
    document = yaml.safe_load((ROOT / "stacks" / "Pulumi.local.yaml").read_text())
    departments = document["config"]["muster:departments"]
    team, department = next((name, each) for each in departments.values() for name in each["teams"])
    department["teams"][team]["kueue"] = {"stopPolicy": "HoldAndDrain"}
    stack = tmp_path / "Pulumi.local.yaml"
    stack.write_text(yaml.safe_dump(document))
    arguments = ["what-if", str(stack), "--base", str(stack), "--synthetic", "1+1"]
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["decided"], found["why"]) == (False, f"ClusterQueue {team} drains the work that runs.")
    assert main(arguments) == 0
    assert "Nothing below is a decision of Kueue." in capsys.readouterr().out
