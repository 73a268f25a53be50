"""Page, comment and JSON show the same result: what one lists, the others list with the same figures."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from muster.live.snapshot import Queue, Snapshot, Usage
from muster.model.queues import Allowance, Department
from muster.model.stack import Scheduler
from muster.model.violations import Violation
from muster.preview.compare.diff import StackDiff
from muster.preview.document import Section, Table, UntrustedText
from muster.preview.html import format_html
from muster.preview.json_report import to_json
from muster.preview.markdown import format_comment
from muster.preview.report import to_report, to_stack_report
from tests.unit.model.model_stacks import gpus, two_teams
from tests.unit.preview.banner_world import cases, changed_stacks
from tests.unit.preview.preview_world import KAI_PROD, diff, priced

_NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def _snapshot(scheduler: Scheduler, flavor: str, **used: int) -> Snapshot:
    queues = (
        Queue(name=name.replace("_", "-"), parent="", usage=(Usage(flavor, "nvidia.com/gpu", amount),))
        for name, amount in used.items()
    )
    return Snapshot(taken=_NOW, scheduler=scheduler, queues=tuple(queues))


def _kueue() -> StackDiff:
    base, head = (
        two_teams(Allowance(quota={"l4": gpus(one)}), Allowance(quota={"l4": gpus(two)}))
        for one, two in ((4, 2), (2, 1))
    )
    return diff(base, head, snapshot=_snapshot(Scheduler.KUEUE, "l4", team_a=3, team_b=9))


def _kai() -> StackDiff:
    head = replace(KAI_PROD, departments=tuple(_halved(each) for each in KAI_PROD.departments))
    return diff(KAI_PROD, head, snapshot=_snapshot(Scheduler.KAI, "", training=16, notebooks=4))


def _halved(department: Department) -> Department:
    def smaller(allowance: Allowance) -> Allowance:
        quota = {pool: gpus((each.gpus or 0) // 2) for pool, each in allowance.quota.items()}
        return replace(allowance, quota=quota)

    teams = tuple(replace(each, allowance=smaller(each.allowance)) for each in department.teams)
    return replace(department, teams=teams, departments=tuple(map(_halved, department.departments)))


def _priced() -> StackDiff:
    return diff(priced(10), priced(20))


_REACHED = "Teams affected by other teams' changes: the most that each could use"
# The tables of KAI's Queues have columns of their own.
_OF_KUEUE = [each for each in cases() if not each.startswith("kai-")]
_BUILDERS = (_kueue, _kai, _priced)


def _tables(found: StackDiff, title: str) -> Iterator[tuple[str, ...]]:
    """The cells of every row below a title, as they are in the page and in the comment."""
    for section in to_stack_report(found).sections:
        if section.title == title:
            yield from _rows(section)


def _rows(section: Section) -> Iterator[tuple[str, ...]]:
    for block in section.blocks:
        if isinstance(block, Table):
            for row in block.rows:
                yield tuple("".join(_plain(span) for span in cell) for cell in row)


def _plain(span: str | UntrustedText) -> str:
    return span.text if isinstance(span, UntrustedText) else span


def _json(found: StackDiff) -> dict[str, Any]:
    (only,) = to_json([found])["stacks"]
    return dict(only)


def test_overuse_has_the_same_rows_everywhere() -> None:
    found = _kueue()
    listed = [
        (each["team"], str(each["used"]), str(each["before"]), str(each["after"]))
        for each in _json(found)["over"]
    ]
    shown = [
        (row[1], row[3], row[4], row[5]) for row in _tables(found, "Who uses more than the new quota now")
    ]
    assert shown == listed
    assert len(listed) == 2


@pytest.mark.parametrize("name", _OF_KUEUE)
def test_quotas_have_the_same_figures_everywhere(name: str) -> None:
    """Every team and every GPU pool, with its quota and what it could use at most, before and after."""
    found = diff(*changed_stacks(name))
    listed = {
        (each["name"], f"{each['pool']} GPU", _arrow(each, _gpus), _arrow(each, lambda side: side["most"]))
        for each in _json(found)["quotas"]
        if each["kind"] == "team" and not each["derived"] and not each["pool"].startswith("cpu")
    }
    shown = {(row[0], row[2], row[3], row[7]) for row in _tables(found, "Quota of teams")}
    reached = {row[0] for row in _tables(found, _REACHED)}
    assert shown == {each for each in listed if each[0] not in reached - {row[0] for row in shown}}


def _gpus(side: dict[str, Any]) -> int:
    return int(side["quota"]["gpus"])


def _arrow(row: dict[str, Any], figure: Callable[[dict[str, Any]], int]) -> str:
    sides = ["–" if row[side] is None else str(figure(row[side])) for side in ("before", "after")]
    before, after = ("unlimited" if len(each) > 6 else each for each in sides)
    return after if before == after else f"{before} → {after}"


def test_kai_has_the_same_rows_everywhere() -> None:
    found, record = _kai(), _json(_kai())
    queues = [(each["queue"], " / ".join(each["path"]), each["resource"]) for each in record["kaiQueues"]]
    for title, resources in (("KAI queues", ["gpu"]), ("KAI queues: CPU and memory", ["cpu", "memory"])):
        wanted = [queue for resource in resources for queue in queues if queue[2] == resource]
        assert [(*row[:2], row[2].lower()) for row in _tables(found, title)] == wanted
    over = [(each["queue"], str(each["used"])) for each in record["kaiOver"]]
    assert [(row[0], row[2]) for row in _tables(found, "Who holds more than the new quota now")] == over
    assert queues
    assert over


def test_money_has_the_same_figures_everywhere() -> None:
    found, record = _priced(), _json(_priced())
    (row,) = _tables(found, "Pools, nodes, GPU-hours and money")
    (pool,) = record["pools"]
    sides = [
        f"{float(side['money']['leastAnHour']):.2f} to {float(side['money']['mostAnHour']):.2f}"
        for side in (pool["before"], pool["after"])
    ]
    assert row[-1] == f"{pool['after']['money']['currency']} {' → '.join(sides)}"
    total = record["cost"]
    line = f"Money an hour at most: {total['currency']} {float(total['mostAnHourBefore']):.2f} → "
    assert line + f"{float(total['mostAnHourAfter']):.2f}" in format_comment(to_report([found]))


@pytest.mark.parametrize("build", _BUILDERS)
def test_every_name_in_the_json_is_on_the_page_and_in_the_comment(build: Callable[[], StackDiff]) -> None:
    found = build()
    page, text, record = format_html(to_report([found])), format_comment(to_report([found])), _json(found)
    rows = [*record["quotas"], *record["pools"], *record.get("over", ()), *record.get("kaiQueues", ())]
    assert rows
    for row in rows:
        name = row.get("name") or row.get("team") or row.get("queue") or row["pool"]
        assert name in page
        assert name in text


def test_a_side_that_does_not_validate_leaves_nothing_compared_in_any_format() -> None:
    broken = replace(
        _kai(),
        changes=None,
        head_mistakes=(Violation("line 1", "wrong.", "mend it."),),
        kai=None,
        pools=(),
        overuse=(),
    )
    assert not {"quotas", "pools", "over", "kaiQueues"} & _json(broken).keys()
    assert {each.title for each in to_stack_report(broken).sections} == {"Mistakes in the description"}
