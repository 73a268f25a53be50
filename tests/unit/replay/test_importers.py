"""Lists of jobs from elsewhere become recordings, or are refused with the line and a fix."""

import gzip
import json
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.cli import main
from muster.replay.csv_jobs import CsvOptions, parse_csv, parse_sacct
from muster.replay.recording import End, RecordingError, Run
from muster.replay.recording_file import load_recording
from tests.length import examples

OPTIONS = CsvOptions(source="jobs.csv", start=1_767_225_600.0)
SACCT = """\
JobID|Account|Submit|Start|End|State|ReqTRES|NNodes|Partition|QOS
7|vision|2026-03-01T10:00:00|2026-03-01T10:05:00|2026-03-01T10:35:00|PREEMPTED|AMOUNTS|2|a100|dev
7|vision|2026-03-01T10:35:00|2026-03-01T11:00:00|2026-03-01T12:00:00|COMPLETED|AMOUNTS|2|a100|dev
7.batch|vision|2026-03-01T11:00:00|2026-03-01T11:00:00|2026-03-01T12:00:00|COMPLETED||1||
8|speech|2026-03-01T10:01:00|Unknown|2026-03-01T10:09:00|CANCELLED by 7|cpu=4,gres/gpu:l4=1,mem=8M|1|l4|prod
9_1|speech|2026-03-01T10:02:00|2026-03-01T10:02:00|Unknown|RUNNING|cpu=4|1|cpu|prod
""".replace("AMOUNTS", "billing=8,cpu=16,gres/gpu=8,mem=64G,node=2")


def test_a_csv_list_becomes_jobs_with_runs() -> None:
    text = (
        "submitted,team,gpus,pods,cpu,memory,pool,priority_class,started,ended,end\n"
        "2026-01-01T00:00:10Z,vision,16,2,32,64Gi,h100,prod,2026-01-01T00:01:00Z,2026-01-01T01:01:00Z,failed\n"
        "5,speech,1,,0.5,,,,,,\n"
    )
    waiting, ran = parse_csv(text, OPTIONS).jobs
    assert (waiting.team, waiting.created, waiting.runs, waiting.left) == (
        "speech",
        OPTIONS.start + 5,
        (),
        None,
    )
    assert waiting.pod_sets[0].requests == {"cpu": 500, "nvidia.com/gpu": 1}
    (pods,) = ran.pod_sets
    assert (pods.count, pods.pools) == (2, ("h100",))
    assert pods.requests == {"cpu": 16_000, "memory": 32 * 2**30, "nvidia.com/gpu": 8}
    assert (ran.wait, ran.runs[0].seconds, ran.outcome, ran.priority_class) == (50, 3600, End.FAILED, "prod")


def test_the_columns_of_a_public_trace_are_named_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace, out = tmp_path / "trace.csv.gz", tmp_path / "month.jsonl.gz"
    trace.write_bytes(
        gzip.compress(b"submit_s,team,gpus,duration_s\n741,ed69ec,1,73649\n774,ed69ec,8,72667\n")
    )
    columns = ("--column", "submitted=submit_s", "--column", "duration=duration_s")
    assert main(["record", "import", str(trace), "--out", str(out), *columns]) == 0
    assert "started when submitted" in capsys.readouterr().err
    first, second = load_recording(out).jobs
    assert second.created - first.created == 33
    assert [job.runs[0].seconds for job in (first, second)] == [73649, 72667]
    assert main(["record", "show", str(out), "--json"]) == 0
    (team,) = json.loads(capsys.readouterr().out)["teams"]
    assert (team["jobs"], team["wait_p95"]) == (2, 0)
    assert team["gpu_hours"] == pytest.approx((73649 + 8 * 72667) / 3600)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("team,gpus\na,1\n", "line 1: no column submitted, duration (or started)"),
        ("submitted,team,duration\n1,a,x\n", "line 2: duration 'x' is not a number"),
        ("submitted,team,duration\n1,,5\n", "line 2: team is empty"),
        ("submitted,team,duration,gpus,pods\n1,a,5,3,2\n", "3 cannot be shared evenly by 2 pods"),
        ("submitted,team,started\n9,a,3\n", "started 3 is before submitted 9"),
        ("submitted,team,duration,end\n9,a,3,gone\n", "end 'gone'; allowed: finished, failed, deleted"),
        ("submitted,team,duration\n", "there is no job in it"),
        (f"submitted,team,duration\n1,{'a' * 200_000},5\n", "line 2: it is no CSV: field larger"),
        (f"submitted,{'a' * 200_000}\n", "line 1: it is no CSV: field larger"),
        ("submitted,team,duration\n1e15,a,5\n", "line 2: submitted '1e15' is neither seconds nor a time"),
        ("submitted,team,duration\n1,a,1e15\n", "line 2: duration '1e15' is not a number of seconds"),
    ],
)
def test_a_csv_list_that_cannot_be_read_is_refused_with_its_line(text: str, named: str) -> None:
    with pytest.raises(RecordingError) as refused:
        parse_csv(text, OPTIONS)
    assert named in refused.value.message
    assert refused.value.fix


def test_two_jobs_of_one_id_are_refused() -> None:
    with pytest.raises(RecordingError, match="jobs 1 and 3 have the same id"):
        parse_csv("id,submitted,team,duration\na,0,vision,5\nb,1,vision,5\na,2,vision,5\n", OPTIONS)


def test_requeued_jobs_of_slurm_have_several_runs() -> None:
    recording = parse_sacct(SACCT, source="sacct.txt", zone=ZoneInfo("Europe/Berlin"))
    requeued, cancelled, running = recording.jobs
    start = 1_772_355_600.0  # 2026-03-01T09:00:00Z is ten o'clock in Berlin.
    assert requeued.created == start
    assert requeued.runs == (
        Run(
            reserved=start + 300,
            admitted=start + 300,
            evicted=start + 2100,
            ended=start + 2100,
            end=End.PREEMPTED,
            reason="PREEMPTED",
        ),
        Run(
            reserved=start + 3600,
            admitted=start + 3600,
            ended=start + 7200,
            end=End.FINISHED,
            reason="COMPLETED",
        ),
    )
    assert (requeued.team, requeued.priority_class, requeued.outcome) == ("vision", "dev", End.FINISHED)
    (pods,) = requeued.pod_sets
    assert (pods.count, pods.pools) == (2, ("a100",))
    assert pods.requests == {"cpu": 8000, "memory": 32 * 2**30, "nvidia.com/gpu": 4}
    assert (cancelled.runs, cancelled.outcome, cancelled.left) == ((), End.DELETED, start + 540)
    assert cancelled.pod_sets[0].requests["nvidia.com/gpu"] == 1
    assert (running.id, running.runs[0].ended, running.left) == ("9_1", None, None)


def test_a_list_without_a_field_names_the_command_to_run() -> None:
    with pytest.raises(RecordingError, match="no field Account, ReqTRES") as refused:
        parse_sacct(
            SACCT.replace("Account", "User").replace("ReqTRES", "TRES"), source="x", zone=ZoneInfo("UTC")
        )
    assert "sacct --allusers --duplicates --parsable2" in refused.value.fix


@pytest.mark.parametrize(
    "text",
    [
        '{"status": "success", "data": {"resultType": "matrix", "result": []}}',
        '# HELP kueue_admitted_workloads_total The total number\nkueue_admitted_workloads_total{c="a"} 4\n',
    ],
)
def test_metrics_are_refused_with_the_reason_and_what_works(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    file = tmp_path / "metrics"
    file.write_text(text)
    assert main(["record", "import", str(file), "--out", str(tmp_path / "x.jsonl")]) == 2
    said = capsys.readouterr().err
    assert "no job's size, order or duration" in said
    assert "`muster:recording`" in said


def test_other_json_is_refused_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "jobs.json"
    file.write_text('[{"submitted": 1}]')
    assert main(["record", "import", str(file), "--out", str(tmp_path / "x.jsonl")]) == 2
    assert "JSON is not imported" in capsys.readouterr().err


@settings(max_examples=examples(60), deadline=None)
@given(rows=st.lists(st.tuples(*(st.text("0123456789-x.:TZ|,", max_size=9) for _ in range(4))), max_size=3))
def test_any_line_is_read_or_refused(rows: list[tuple[str, ...]]) -> None:
    csv = "\n".join(["submitted,team,duration,gpus", *(",".join(row) for row in rows)])
    head = "JobID|Account|Submit|Start|End|State|ReqTRES|NNodes"
    sacct = "\n".join([head, *("|".join((*row, *row)) for row in rows)])
    for text in (csv, sacct):
        try:
            if text is csv:
                parse_csv(text, OPTIONS)
            else:
                parse_sacct(text, source="x", zone=ZoneInfo("UTC"))
        except RecordingError as refused:
            assert refused.fix  # noqa: PT017


@pytest.mark.parametrize(
    ("name", "raw", "named"),
    [
        ("empty.csv", b" \n", "the file is empty."),
        ("torn.csv.gz", gzip.compress(b"submitted,team\n1,a\n", mtime=0)[:-9], "its gzip data ends early."),
        ("broken.csv.gz", b"\x1f\x8b\x07 of no known method", "neither text in UTF-8 nor gzip of it."),
        ("month.jsonl", b'{"header":{"version":1}}\n', "is a recording already."),
    ],
)
def test_a_wrong_file_gets_one_error_that_says_what_it_is(
    tmp_path: Path, name: str, raw: bytes, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / name
    file.write_bytes(raw)
    assert main(["record", "import", str(file), "--out", str(tmp_path / "out.jsonl")]) == 2
    error, fix = capsys.readouterr().err.splitlines()
    assert error == f"Error: {file}: {named}"
    assert fix.startswith("Fix: ")
