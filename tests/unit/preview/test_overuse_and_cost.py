"""Overuse and costs: only what is known is shown."""

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from muster.cli import main
from muster.live.snapshot import Queue, Snapshot, Usage, format_snapshot, kueue
from muster.model.capacity import Capacity
from muster.model.prices import Price, PriceTable
from muster.model.quantities import Millicores
from muster.model.queues import Allowance, Amount, Bound, Department, Limit
from muster.model.stack import Scheduler, Stack
from muster.model.violations import Violation
from muster.preview.compare.diff import StackDiff, compare, queued_work
from muster.preview.document import Table
from muster.preview.json_report import to_json
from muster.preview.markdown import format_comment
from muster.preview.report import to_report as report_of
from tests.unit.model.model_stacks import H100, gpus, stack, team, two_teams
from tests.unit.preview.preview_world import LOCAL, diff, local_without_l4, priced
from tests.unit.preview.snapshot_world import local_queue, workload

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def _quota(first: int, second: int = 0) -> Stack:
    one, two = (
        Allowance(quota={"l4": gpus(number)}, borrow=Limit(otherwise=Bound.ALL)) for number in (first, second)
    )
    return two_teams(one, two)


def _snapshot(**used: int) -> Snapshot:
    queues = (
        Queue(name=name.replace("_", "-"), parent="", usage=(Usage("l4", "nvidia.com/gpu", amount),))
        for name, amount in used.items()
    )
    workloads = tuple(
        found
        for state in ("pending", "admitted")
        if (found := kueue.to_workload(workload(state, state=state)))
    )
    return Snapshot(
        taken=NOW,
        scheduler=Scheduler.KUEUE,
        queues=tuple(queues),
        local_queues=(kueue.to_local_queue(local_queue()),),
        workloads=workloads,
    )


def _diff(base: Stack | None, head: Stack | None, snapshot: Snapshot | None = None) -> StackDiff:
    return diff(base, head, snapshot=snapshot)


def test_overuse_is_listed_with_whether_the_change_causes_it() -> None:
    base, head = _quota(4, 2), _quota(2, 1)
    found = _diff(base, head, _snapshot(team_a=3, team_b=3)).overuse
    assert [(each.team, each.used, each.before, each.after, each.is_new) for each in found] == [
        ("team-a", 3, 4, 2, True),
        ("team-b", 3, 2, 1, False),
    ]
    assert _diff(base, head, _snapshot(team_a=2, team_b=1)).overuse == ()


def test_cpus_are_never_in_a_column_with_gpus() -> None:
    """Of both kinds a team uses more than is left; a column that is sorted has one unit."""
    base, head = (
        two_teams(
            Allowance(quota={"l4": gpus(each), "cpu": Amount(cpu=Millicores(each * 10_000))}), Allowance()
        )
        for each in (4, 2)
    )
    used = (Usage("l4", "nvidia.com/gpu", 4), Usage("cpu", "cpu", 40_000))
    found = _diff(base, head, replace(_snapshot(), queues=(Queue(name="team-a", parent="", usage=used),)))
    (section,) = [
        each for each in report_of([found]).stacks[0].sections if each.title.startswith("Who uses more")
    ]
    units = [{str(row[2][-1]) for row in block.rows} for block in section.blocks if isinstance(block, Table)]
    assert units == [{" GPU"}, {" CPU"}]


def test_a_removed_team_with_running_work_is_listed() -> None:
    head = stack(Department(name="research", teams=(team("team-b", Allowance(quota={"l4": gpus(2)})),)))
    found = _diff(_quota(2, 2), head, _snapshot(team_a=2)).overuse
    assert [(each.team, each.is_gone, each.after) for each in found] == [("team-a", True, 0)]


def test_unchanged_teams_are_not_listed() -> None:
    assert _diff(_quota(4, 1), _quota(2, 1), _snapshot(team_b=9)).overuse == ()


def test_the_work_of_the_teams_that_change_is_counted() -> None:
    found = queued_work(compare(_quota(4, 1), _quota(2, 1)), _snapshot())
    assert [(each.team, each.pending, each.holding) for each in found] == [("team-a", 1, 1)]


def test_overuse_comes_before_any_resource() -> None:
    text = format_comment(report_of([_diff(_quota(4), _quota(2), _snapshot(team_a=3))]))
    assert "- 1 team uses more than the new quota now: `team-a`." in text
    assert "| new | `team-a` | `l4` GPU | 3 | 4 | 2 | 1 | 2 |" in text
    assert "As of 2026-11-21 12:00 UTC." in text


def test_a_recorded_snapshot_is_named_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "snapshot.json"
    path.write_text(format_snapshot(_snapshot(team_a=1)), encoding="utf-8")
    compared = ["diff", "--base", str(LOCAL), str(local_without_l4(tmp_path))]
    assert main([*compared, "--snapshot", str(path)]) == 0
    assert "1 team uses more than the new quota now: `team-a`" in capsys.readouterr().out
    assert main([*compared, "--snapshot", f"other={path}"]) == 2
    assert "which is not compared" in capsys.readouterr().err
    assert main([*compared, "--snapshot", str(path), "--snapshot", str(path)]) == 2
    assert "two snapshots" in capsys.readouterr().err


# Money


def _eks(most: int) -> Stack:
    return priced(most, replace(H100, max_nodes=most))


def test_costs_have_a_source_and_others_are_not_priced() -> None:
    text = format_comment(report_of([_diff(_eks(10), _eks(20))]))
    assert "| USD 1.01 to 10.06 → 1.01 to 20.12 |" in text
    assert "- Money an hour at most: USD 10.06 → 20.12; not priced: `h100`." in text
    assert "on-demand: USD 1.006 a node and hour, read 2026-07-20 (more than 90 days ago: " in text
    assert "- GPU-hours a day at most, of the pools that change: 2160 → 4320." in text


def test_currencies_are_not_added() -> None:
    def price(machine: str, capacity: Capacity, currency: str) -> Price:
        return Price(
            machine=machine,
            region="us-east-1",
            capacity=capacity,
            hourly=Decimal(2),
            currency=currency,
            read=date(2026, 11, 1),
            source="x",
        )

    both = (
        price("g5.xlarge", Capacity.ON_DEMAND, "USD"),
        price(H100.machine.name, Capacity.ON_DEMAND, "EUR"),
    )
    mixed = diff(_eks(10), _eks(20), prices=PriceTable(both))
    assert "Money an hour at most" not in format_comment(report_of([mixed]))


def test_a_users_prices_are_read_or_refused_with_every_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "prices.yaml"
    compared = ["diff", "--base", str(LOCAL), str(LOCAL), "--prices", str(path)]
    for text, message in (
        ("prices: []", ""),
        ("prices: [{machine: x}]", "needs exactly machine, region"),
        ("[", "not YAML"),
    ):
        path.write_text(text, encoding="utf-8")
        assert main(compared) == (2 if message else 0)
        assert message in capsys.readouterr().err


def test_several_stacks_have_one_line_above_them() -> None:
    same = _diff(_quota(1), _quota(1))
    refused = replace(
        same, name="b", changes=None, head_mistakes=(Violation("line 3", "wrong.", "mend it."),)
    )
    text = format_comment(report_of([same, refused, replace(_diff(_quota(1), _quota(2)), name="c")]))
    assert text.startswith("**3 stacks: 1 refused or failed, 1 change, 1 do not change.**\n\n## ")


def test_json_has_costs_and_overuse() -> None:
    eks = to_json([_diff(_eks(10), _eks(20))])["stacks"][0]
    found = {each["pool"]: each["after"]["money"] for each in eks["pools"]}
    assert found["h100"] is None
    assert (found["l4"]["mostAnHour"], found["l4"]["currency"]) == ("20.120", "USD")
    live = to_json([_diff(_quota(4), _quota(2), _snapshot(team_a=3))])["stacks"][0]
    assert [(each["team"], each["used"], each["after"]) for each in live["over"]] == [("team-a", 3, 2)]
    assert live["work"] == [{"team": "team-a", "pending": 1, "holding": 1}]
    assert not live["refused"]
