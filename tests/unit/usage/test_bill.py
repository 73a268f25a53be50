"""The bill: its sums, its CSV against the rules of FOCUS, its page, and names that try to be more."""

import csv
import io
import json
import re
import tomllib
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from muster.cli import main
from muster.config import load
from muster.errors import ExitCode
from muster.model import names
from muster.model.prices import BUILT_IN
from muster.model.stack import Scheduler
from muster.preview.html import format_usage
from muster.replay.csv_jobs import CsvOptions, parse_csv
from muster.replay.recording import Booked, End, Gap, Header, Job, Node, PodSet, Recording, Run, Usable
from muster.replay.recording_file import write_recording
from muster.usage.bill import Bill, By, format_bill, format_focus, to_bill
from muster.usage.inputs import read_books
from muster.usage.ledger import Cause

RULES = tomllib.loads(Path(__file__).with_name("focus-1.2.toml").read_text())
STACK = Path("stacks/Pulumi.gke-prod.yaml")
# 2026-11-01T00:00:00Z
START = 1_793_491_200.0
HOUR = 3600.0
HOSTILE = (
    "=1+2",
    "+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "\r\n=1",
    "＝1",
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "\x1b[31mred\x1b]0;title\x07",
    "a\u202eb",
    " =1+2",
    "a;=1+2",
    'a";+1',
    "a,@SUM(A1)",
    "\u200b=1",
    "\u2028=1",
    "\x9b31mred",
    "`<img src=x onerror=alert(1)>`",
    "</title></style><svg onload=alert(1)>",
    "[a](javascript:alert(1))",
)


def _job(number: int, team: str, *, gpus: int = 8, queue: str = "", **run: Any) -> Job:
    times = {"reserved": START + HOUR, "admitted": START + 2 * HOUR, "ended": START + 10 * HOUR} | run
    pods = PodSet(name="p0", count=1, requests={names.GPU_RESOURCE: gpus}, pools=("h200",))
    return Job(
        id=f"job-{number}",
        team=team,
        cluster_queue=queue or team,
        created=START,
        pod_sets=(pods,),
        runs=(Run(flavors=("h200",), **times),),
    )


def _recording(*jobs: Job, nodes: int = 2, **header: Any) -> Recording:
    bought = tuple(
        Node(
            id=f"node-{number}",
            pool="h200",
            machine="a3-ultragpu-8g",
            created=START,
            gpus=8,
            usable=(Usable(START + HOUR / 2, 8), Usable(START + 20 * HOUR, 7)),
            booked=(Booked(START, f"job-{number + 1}"), Booked(START + 20 * HOUR, "")),
            left=START + 40 * HOUR,
        )
        for number in range(nodes)
    )
    settings = {"start": START, "end": START + 50 * HOUR, "nodes_from": START} | header
    return Recording(
        header=Header(scheduler=Scheduler.KUEUE, source="cluster", **settings),
        jobs=jobs,
        nodes=bought,
        gaps=(Gap(START + 30 * HOUR, START + 31 * HOUR),),
    )


RECORDING = _recording(
    _job(1, "ranking"), _job(2, "vision", end=End.PREEMPTED), _job(3, "speech", admitted=None)
)


def _bill(recording: Recording = RECORDING, by: By = By.TEAM) -> Bill:
    return to_bill(read_books(recording, load(STACK), BUILT_IN, month=None), by)


def test_a_bill_sums_to_what_its_nodes_cost_and_tells_who_used_them() -> None:
    bill = _bill()
    lines = {line.name: {cause.value: hours for cause, hours in line.hours.items()} for line in bill.lines}
    assert lines["ranking"] == pytest.approx({"guaranteed": 64, "gated": 8})
    assert lines["vision"] == pytest.approx({"lost": 64, "gated": 8})
    assert "speech" not in lines, "nothing was bought for it"
    idle = 16 * 0.5 + 16 * 10 + 14 * 19
    assert lines[""] == pytest.approx({"booting": 8, "broken": 2 * 19, "unknown": 16, "idle": idle})
    price = BUILT_IN.of(load(STACK).pool("h200"), load(STACK).cluster)  # type: ignore[arg-type]
    assert price is not None
    assert bill.total.costs["USD"] == pytest.approx(float(price.hourly) * 2 * 40)
    assert bill.total.unpriced == 0


def test_a_pod_set_without_a_pool_is_billed_where_its_flavor_was_and_nowhere_else() -> None:
    pods = PodSet(name="p0", count=1, requests={names.GPU_RESOURCE: 8})
    times: dict[str, Any] = {"reserved": START + HOUR, "admitted": START + HOUR, "ended": START + 2 * HOUR}
    flavors = ("h100", "h200")
    run = Run(flavors=flavors, device_flavors=("h200", "h100"), **times)
    job = replace(_job(1, "ranking"), pod_sets=(pods, replace(pods, name="p1")), runs=(run,))
    known = {line.name: line.hours for line in _bill(_recording(job), By.POOL).lines}
    assert known["h200"][Cause.GUARANTEED] == pytest.approx(8), "the other half is on nodes that are not here"
    # An older recording does not say which is where: as many GPUs are unknown as may be the job's.
    older = replace(job, runs=(replace(run, device_flavors=()),))
    unknown = {line.name: line.hours for line in _bill(_recording(older), By.POOL).lines}
    assert unknown["h200"][Cause.UNKNOWN] == pytest.approx(16 + 16)
    assert Cause.GUARANTEED not in unknown["h200"]


def test_a_gang_that_was_stopped_as_idle_has_idle_hours_and_has_given_hours_back() -> None:
    stopped = _job(1, "ranking", end=End.EVICTED, idle=START + 6 * HOUR)
    bill = _bill(_recording(stopped))
    (line,) = (line for line in bill.lines if line.name == "ranking")
    assert line.hours == pytest.approx({Cause.GUARANTEED: 4 * 8, Cause.IDLE: 4 * 8, Cause.GATED: 8})
    text = format_bill(bill, room=None, has_colour=False)
    window = bill.books.window
    hours = 8 * (window.end - START - 10 * HOUR) / HOUR
    assert f"Stopped as idle, gangs of ranking gave back {hours:,.1f} GPU-hours." in text
    again = _job(1, "ranking", reserved=START + 12 * HOUR, ended=None).runs
    waits = replace(_job(2, "vision"), runs=())
    bill = _bill(_recording(replace(stopped, runs=(*stopped.runs, *again)), waits))
    assert bill.books.given_back == pytest.approx({"ranking": 16})


@pytest.mark.parametrize("by", list(By))
def test_every_way_to_group_has_the_same_total(by: By) -> None:
    bill = _bill(by=by)
    assert sum(line.total for line in bill.lines) == pytest.approx(2 * 8 * 40)
    weekly = sum(line.total for lines in bill.weeks.values() for line in lines)
    assert weekly == pytest.approx(bill.total.total)


def test_a_queue_that_the_stack_lacks_and_a_recording_without_nodes_are_not_guessed() -> None:
    bill = _bill(_recording(_job(1, "gone-team"), nodes=0, nodes_from=None))
    assert [
        (line.name, {str(cause): hours for cause, hours in line.hours.items()}) for line in bill.lines
    ] == [("gone-team", {"unknown": 64.0})]
    assert "The recording has no nodes" in " ".join(bill.books.notes)


def test_users_of_an_imported_list_have_lines() -> None:
    rows = ("submitted,team,gpus,duration,pool,user", "1800000000,vision,8,3600,h200,ada")
    text = "\n".join([*rows, "1800000000,vision,8,7200,h200,", ""])
    recording = parse_csv(text, CsvOptions(source="jobs.csv"))
    assert [(line.name, line.total) for line in _bill(recording, By.USER).lines] == [("ada", 8), ("", 16)]


def _violations(text: str) -> list[str]:
    """What a CSV violates of the rules of FOCUS."""
    rows = list(csv.DictReader(io.StringIO(text)))
    columns, found = list(rows[0]), []
    custom = [name for name in columns if name not in RULES["columns"]]
    found += [f"{name}: has no x_ before it" for name in custom if not name.startswith("x_")]
    if columns[len(columns) - len(custom) :] != custom:
        found.append("custom columns are not the last")
    for name, rule in RULES["columns"].items():
        if name not in columns:
            found += [f"{name}: is missing"] if rule["level"] == "mandatory" else []
            continue
        for number, row in enumerate(rows):
            found += [f"{name}, row {number}: {why}" for why in _wrong(row[name], rule)]
    for number, row in enumerate(rows):
        if not (
            row["BillingPeriodStart"]
            <= row["ChargePeriodStart"]
            < row["ChargePeriodEnd"]
            <= row["BillingPeriodEnd"]
        ):
            found.append(f"row {number}: the charge is not within its billing period")
        listed = float(row["ListUnitPrice"]) * float(row["PricingQuantity"])
        if abs(listed - float(row["ListCost"])) > 1e-6:
            found.append(f"row {number}: ListCost is not ListUnitPrice times PricingQuantity")
        if any(isinstance(value, dict | list) for value in json.loads(row["Tags"]).values()):
            found.append(f"row {number}: Tags nest")
    return found


def _wrong(cell: str, rule: dict[str, Any]) -> list[str]:
    if not cell:
        return [] if rule["nulls"] else ["is null"]
    if "values" in rule:
        return [] if cell in rule["values"] else [f"{cell!r} is not allowed"]
    return [] if re.fullmatch(RULES["kinds"][rule["kind"]], cell) else [f"{cell!r} is no {rule['kind']}"]


def _csv(bill: Bill) -> str:
    return format_focus(bill, account="gke-prod", provider="gke")


@pytest.mark.parametrize("by", [By.TEAM, By.JOB])
def test_the_csv_keeps_the_rules_of_focus_and_has_the_cost_of_the_bill(by: By) -> None:
    bill = _bill(by=by)
    assert _violations(_csv(bill)) == []
    billed = sum(float(row["BilledCost"]) for row in csv.DictReader(io.StringIO(_csv(bill))))
    assert billed == pytest.approx(bill.total.costs["USD"], rel=1e-6)


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        ("BilledCost", "Cost", "BilledCost: is missing"),
        (",USD,", ",usd,", "'usd' is no currency"),
        (",Usage,", ",Use,", "'Use' is not allowed"),
        ("T00:00:00Z", "T00:00:00", "is no datetime"),
    ],
)
def test_the_rules_can_fail(before: str, after: str, named: str) -> None:
    assert named in " ".join(_violations(_csv(_bill()).replace(before, after)))


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.handlers: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on")]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_is_no_formula_no_markup_and_no_terminal_sequence(name: str) -> None:
    """Of a team, a queue, a user, a job, a pool and a stack, in every output."""
    jobs = [_job(1, name, queue="ranking"), _job(2, "ranking", queue=name)]
    jobs = [replace(job, name=name, user=name) for job in jobs]
    node = Node(id="n", pool=name, machine=name, created=START, gpus=8, usable=(Usable(START, 8),))
    recording = replace(_recording(*jobs), nodes=(*RECORDING.nodes, node))
    for by in By:
        bill = _bill(recording, by)
        text = format_focus(bill, account=name, provider="gke")
        for row in csv.DictReader(io.StringIO(text)):
            for cell in row.values():
                # A spreadsheet whose separator is another one divides the cell, quoted or not.
                for part in re.split(r'[,;|"]', cell):
                    assert not part.strip().startswith(("=", "+", "-", "@", "＝"))
                assert not set(cell) & {"\x1b", "\x9b", "\t", "\r", "\n", "\u2028"}
        assert _violations(text) == []
        document = format_usage(bill, stack=name)
        page = _Parser()
        page.feed(document)
        assert not page.tags & {"img", "a"}
        assert page.handlers == []
        assert document.count("<script") == 1
        shown = format_bill(bill, room=120, has_colour=False)
        assert not set(shown) & {"\x1b", "\x9b", "\x07", "\r", "\t", "\u202e", "\u200b", "\u2028"}


@pytest.mark.parametrize("room", [80, 120, 200])
def test_a_terminal_gets_bars_and_as_many_figures_as_fit(room: int) -> None:
    bill = _bill()
    shown = format_bill(bill, room=room, has_colour=False)
    table = shown[: shown.index("\n\n", shown.index("\n\n") + 2)]
    assert max(map(len, table.splitlines())) <= room
    assert "█" in table
    for cause, hours in bill.total.hours.items():
        assert f" {cause.heading} {hours:,.1f}" in shown


def test_the_page_opens_from_a_file_and_asks_no_other_host() -> None:
    page = format_usage(_bill(), stack="gke-prod")
    assert "default-src 'none'" in page
    assert not re.search(r"(src|href)\s*=", page)
    assert "Week of 2026-10-26" in page
    assert "Week of 2026-11-02" in page


def _usage(path: Path, *options: str) -> int:
    write_recording(path, RECORDING)
    return main(["usage", "gke-prod", "--recording", str(path), *options])


def test_the_command_prints_a_table_and_writes_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, table = tmp_path / "usage.html", tmp_path / "usage.csv"
    assert _usage(tmp_path / "a.jsonl", "--html", str(page), "--csv", str(table)) == ExitCode.DONE
    shown = capsys.readouterr().out
    assert re.search(r"(?m)^ranking +72\.0 ", shown)
    assert "\x1b" not in shown
    assert page.read_text().startswith("<!doctype html>")
    assert table.read_text().startswith("BilledCost,")


def test_the_json_has_the_causes_of_each_team(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _usage(tmp_path / "a.jsonl", "--json") == ExitCode.DONE
    found = json.loads(capsys.readouterr().out)
    assert found["total"]["gpuHours"] == pytest.approx(640)
    assert {line["name"] for line in found["lines"]} == {"", "ranking", "vision"}


def test_two_documents_do_not_share_standard_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _usage(tmp_path / "a.jsonl", "--json", "--csv", "-") == ExitCode.UNUSABLE
    assert "cannot share standard output" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("month", "named"),
    [("2026-13", "not a month"), ("November", "not a month"), ("2026-10", "nothing of the time")],
)
def test_a_month_without_records_is_an_error_with_a_fix(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], month: str, named: str
) -> None:
    assert _usage(tmp_path / "a.jsonl", "--month", month) == ExitCode.UNUSABLE
    shown = capsys.readouterr().err
    assert named in shown
    assert "Fix:" in shown
