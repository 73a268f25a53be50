"""A recording is read as it was written, from whatever a kill left of its file."""

import gzip
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.cli import main
from muster.live.snapshot.workloads import Expression, Term, Toleration
from muster.model.stack import Scheduler
from muster.paths import stack_file
from muster.replay.recording import End, Gap, Header, Ids, Job, PodSet, Recording, RecordingError, Run
from muster.replay.recording_file import Writer, load_recording, older_parts, write_recording
from muster.replay.stored import Mark
from tests.length import examples

START = 1_764_000_000.0
HEADER = Header(scheduler=Scheduler.KUEUE, start=START, end=START, source="cluster", left_out=("names",))
NAMES = ["month.jsonl", "month.jsonl.gz"]


def _job(number: int, *, left: float | None = None) -> Job:
    pods = PodSet(
        name="workers",
        count=4,
        min_count=2,
        requests={"cpu": 8000, "nvidia.com/gpu": 8},
        pools=("h100",),
        node_selector={"muster.dev/pool": "h100"},
        tolerations=(Toleration("nvidia.com/gpu", "Exists", "", "NoSchedule"),),
        terms=(Term((Expression("zone", "In", ("a", "b")),)),),
    )
    run = Run(
        reserved=START + number + 5,
        admitted=START + number + 6.125,
        evicted=left,
        ended=left,
        end=None if left is None else End.PREEMPTED,
        reason="" if left is None else "InClusterQueue",
        by="" if left is None else "another",
        flavors=("h100",),
        counts=(3,),
    )
    return Job(
        id=f"job-{number:04}",
        team="vision",
        queue="default",
        cluster_queue="vision",
        created=START + number,
        pod_sets=(pods,),
        priority=100,
        priority_class="dev",
        tie=number,
        runs=(run,),
        left=left,
        outcome=None if left is None else End.DELETED,
    )


def _recording(count: int = 20) -> Recording:
    jobs = tuple(_job(number, left=START + 500 if number % 3 else None) for number in range(count))
    return Recording(header=replace(HEADER, end=START + 900), jobs=jobs, gaps=(Gap(START + 1, START + 2),))


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_is_read_as_it_was_written(tmp_path: Path, name: str) -> None:
    write_recording(tmp_path / name, _recording())
    assert load_recording(tmp_path / name) == _recording()


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=examples(25), deadline=None)
@given(cut=st.floats(0, 1))
def test_a_file_that_was_cut_anywhere_is_read_and_continued(
    tmp_path_factory: pytest.TempPathFactory, name: str, cut: float
) -> None:
    path = tmp_path_factory.mktemp("torn") / name
    with Writer.begin(path, HEADER) as writer:
        first = path.stat().st_size
        for number in range(8):
            writer.add([_job(number), Mark(START + number)])
            writer.flush()
    raw = path.read_bytes()
    path.write_bytes(raw[: first + int(cut * (len(raw) - first))])

    found = load_recording(path)
    assert list(found.jobs) == [_job(number) for number in range(len(found.jobs))]
    with Writer.resume(path, found) as writer:
        writer.add([_job(100, left=START + 200), Mark(START + 300)])
    again = load_recording(path)
    assert again.jobs == (*found.jobs, _job(100, left=START + 200))
    assert again.warnings == ()
    assert again.header.end == START + 300


@settings(max_examples=examples(50), deadline=None)
@given(raw=st.binary(max_size=200), is_packed=st.booleans())
def test_bytes_that_are_no_recording_are_refused_with_a_fix(
    tmp_path_factory: pytest.TempPathFactory, raw: bytes, is_packed: bool
) -> None:
    path = tmp_path_factory.mktemp("noise") / "noise.jsonl"
    path.write_bytes(gzip.compress(raw + b"\n") if is_packed else raw + b"\n")
    with pytest.raises(RecordingError) as refused:
        load_recording(path)
    assert refused.value.fix
    assert str(path) in refused.value.message


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ('{"job": {"id": "x"}}', "line 2: job: a required field of Job is missing"),
        ('{"job": {"id": "x", "team": 3, "created": 1, "pod_sets": []}}', "job.team: expected str"),
        ('{"job": {"id": "x", "team": "a", "created": 1, "pod_sets": [], "extra": 1}}', "expected Job"),
        ('{"node": {"id": "x"}}', "node: a required field of Node is missing"),
        (
            '{"node": {"id": "x", "pool": "", "machine": "", "created": 1, "left": -1}}',
            "a time is not between 1970 and 9999",
        ),
        ('{"jobs": {}}', "unknown key 'jobs'; allowed: header, job, node, mark, gap"),
        ('{"job": {}', "not JSON"),
        ('{"mark": 1e15}', "a time is not between 1970 and 9999"),
        ('{"mark": NaN}', "a time is not between 1970 and 9999"),
        ('{"gap": {"start": -1, "end": 5}}', "a time is not between 1970 and 9999"),
        ('{"job": {"id": "x", "team": "a", "created": 1e15, "pod_sets": []}}', "a time is not between"),
    ],
)
def test_an_error_names_the_line(tmp_path: Path, line: str, named: str) -> None:
    path = tmp_path / "bad.jsonl"
    write_recording(path, Recording(header=HEADER, jobs=()))
    first = path.read_bytes().splitlines()[0]
    path.write_bytes(first + b"\n" + line.encode() + b"\n")
    with pytest.raises(RecordingError, match=r"bad\.jsonl, line 2") as refused:
        load_recording(path)
    assert named in refused.value.message


def test_a_recording_of_others_shows_no_control_characters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "theirs.jsonl"
    job = Job(id="x", team="a\x1b]0;owned\x07b", created=5.0, pod_sets=())
    header = replace(HEADER, left_out=("one\x1b[2Jtwo",), source="c\x1b[1msv")
    write_recording(path, Recording(header=header, jobs=(job,)))
    assert main(["record", "show", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "onetwo" in shown


def test_a_recording_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "new.jsonl"
    path.write_text('{"header": {"version": 4}}\n')
    with pytest.raises(RecordingError, match="this Muster reads versions 1 to 3"):
        load_recording(path)


@pytest.mark.parametrize("name", NAMES)
def test_full_files_are_put_aside_and_each_one_is_complete_in_itself(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    wanted = _recording(30)
    with Writer.begin(path, wanted.header, rotate_bytes=2_000) as writer:
        for job in wanted.jobs:
            writer.add([replace(job, left=None, outcome=None)])
            writer.flush()
        for job in wanted.jobs:
            writer.add([job])
            writer.flush()
        writer.add([Mark(START + 900), *wanted.gaps])
    parts = older_parts(path)
    assert len(parts) > 2
    assert load_recording(path).jobs == wanted.jobs
    for part in parts[:-1]:
        part.unlink()
    staying = {job.id for job in wanted.jobs if job.left is None}
    assert staying <= {job.id for job in load_recording(path).jobs}


@pytest.mark.parametrize("name", NAMES)
def test_a_part_that_was_deleted_makes_no_other_part_be_written_over(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with Writer.begin(path, HEADER, rotate_bytes=1) as writer:
        for number in range(3):
            writer.add([_job(number, left=START + 200)])
            writer.flush()
        first, *others = older_parts(path)
        kept = [part.read_bytes() for part in others]
        first.unlink()
        writer.add([_job(9, left=START + 200)])
    assert len(older_parts(path)) == len(others) + 1
    assert [part.read_bytes() for part in others] == kept


def test_a_rotation_that_fails_leaves_the_file_and_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "month.jsonl"
    writer = Writer.begin(path, HEADER)
    writer = Writer(path, HEADER, rotate_bytes=1)
    writer.add([_job(1)])

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(RecordingError, match=r"month\.jsonl: cannot be written: No space left"):
        writer.flush()
    assert load_recording(path).jobs == (_job(1),)


def test_a_write_that_fails_half_way_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "month.jsonl.gz"
    writer = Writer.begin(path, HEADER)
    before = path.read_bytes()
    writer.add([_job(1)])

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        with pytest.raises(RecordingError, match="No space left"):
            writer.flush()
    assert path.read_bytes() == before
    writer.flush()
    assert load_recording(path).jobs == (_job(1),)


def test_a_missing_file_beside_its_older_parts_is_not_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "month.jsonl"
    with Writer.begin(path, HEADER, rotate_bytes=1) as writer:
        writer.add([_job(1)])
    path.unlink()
    with pytest.raises(RecordingError, match=r"older parts of it exist, such as month\.0002\.jsonl"):
        write_recording(path, _recording())


def test_a_key_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "month.jsonl"
    ids = Ids.create(path)
    with pytest.raises(RecordingError, match=r"its key month\.jsonl\.key exists"):
        Ids.create(path)
    assert Ids.load(path) == ids


def _blocks(path: Path) -> list[int]:
    """A recording of four blocks; where each begins."""
    starts = [0]
    with Writer.begin(path, HEADER) as writer:
        for number in range(3):
            starts.append(path.stat().st_size)
            writer.add([_job(number)])
            writer.flush()
    return starts


@pytest.mark.parametrize("offset", [0, 30])
def test_a_damaged_block_amid_others_is_refused(tmp_path: Path, offset: int) -> None:
    path = tmp_path / "month.jsonl.gz"
    second, third = _blocks(path)[1:3]
    raw = bytearray(path.read_bytes())
    raw[second + offset] ^= 0xFF
    path.write_bytes(raw)
    with pytest.raises(RecordingError, match=f"block at byte {second} is damaged.* byte {third}"):
        load_recording(path)
    assert path.read_bytes() == raw


def test_a_torn_end_is_named_with_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "month.jsonl.gz"
    last = _blocks(path)[-1]
    path.write_bytes(path.read_bytes()[: last + 40])
    found = load_recording(path)
    assert len(found.jobs) == 2
    assert f"its last 40 bytes, from byte {last}" in found.warnings[0]


def test_an_existing_file_is_not_written_over(tmp_path: Path) -> None:
    write_recording(tmp_path / "month.jsonl", _recording())
    with pytest.raises(RecordingError, match="exists already"):
        write_recording(tmp_path / "month.jsonl", _recording())


@pytest.mark.parametrize(
    ("name", "raw", "named"),
    [
        ("empty.jsonl", b"", "the file is empty."),
        ("empty.jsonl.gz", b"", "the file is empty."),
        ("Pulumi.prod.yaml", b"config:\n  muster:pools: {}\n", "is not a recording: its first line is no"),
        ("snapshot.json", b'{\n  "version": 1\n}\n', "is not a recording: its first line is no header."),
        (
            "noise.jsonl.gz",
            gzip.compress(b"\xff\n", mtime=0),
            "is not a recording: its first line is no header.",
        ),
        (
            "torn.jsonl.gz",
            gzip.compress(b'{"header": {}}\n', mtime=0)[:20],
            "ends before its first line is complete.",
        ),
        ("torn.jsonl", b'{"header": {"vers', "ends before its first line is complete."),
        ("stack.jsonl.gz", b"config:\n", "its name ends with .gz, but it is not gzip."),
    ],
)
def test_a_wrong_file_gets_one_error_that_says_what_it_is(
    tmp_path: Path, name: str, raw: bytes, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_bytes(raw)
    stack = str(stack_file("local", start=Path(__file__).parent))
    for command in (
        ["record", "show", str(path)],
        ["diff", stack, "--base", stack, "--replay", str(path)],
        ["plan", stack, "--recording", str(path), "--goal", "utilization > 80%"],
        ["why", "a/5f1c0a6e7d20b911", "--stack", stack, "--replay", str(path)],
    ):
        assert main(command) == 2
        error, fix = capsys.readouterr().err.splitlines()
        assert error.startswith(f"Error: {path}: {named}")
        assert fix.startswith("Fix: ")


def test_a_file_that_unpacks_to_far_more_than_it_holds_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.replay.recording_file._UNPACKED", 0)
    path = tmp_path / "month.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"header": ' + b" " * 1024**2))
    with pytest.raises(RecordingError, match="more than 64 times its size"):
        load_recording(path)
