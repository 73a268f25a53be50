"""The recorder without the command line, as it runs in a pod: `python -m muster.replay`."""

import io
from pathlib import Path

import pytest

from muster.errors import ExitCode
from muster.model.stack import Scheduler
from muster.replay.__main__ import main, print_recording
from muster.replay.recording import Header, Job, PodSet, RecordingError
from muster.replay.recording_file import Writer, load_recording, older_parts

_HEADER = Header(scheduler=Scheduler.KUEUE, start=0.0, end=0.0, source="cluster")


def _job(number: int, *, left: float | None = None) -> Job:
    pods = PodSet(name="p0", count=1, requests={"cpu": 1000})
    return Job(id=f"job-{number}", team="vision", created=float(number), pod_sets=(pods,), left=left)


def _in_parts(path: Path, *, keep_bytes: int | None = None) -> None:
    """Each flush is a part of its own. Job 0 never leaves."""
    writer = Writer.begin(path, _HEADER, rotate_bytes=1, keep_bytes=keep_bytes)
    for number in range(5):
        writer.add([_job(number, left=None if number == 0 else 90.0)])
        writer.flush()


@pytest.mark.parametrize("name", ["r.jsonl", "r.jsonl.gz"])
def test_all_parts_are_printed_as_one_recording(tmp_path: Path, name: str) -> None:
    path, copy = tmp_path / name, tmp_path / f"copy-{name}"
    _in_parts(path)
    assert len(older_parts(path)) > 3
    with copy.open("wb") as out:
        print_recording(path, out)
    assert load_recording(copy) == load_recording(path)


def test_a_file_that_is_put_aside_while_it_is_printed_is_printed_once(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    Writer.begin(path, _HEADER).flush()
    (tmp_path / "r.0001.jsonl").hardlink_to(path)
    out = io.BytesIO()
    print_recording(path, out)
    assert out.getvalue() == path.read_bytes()


def test_the_oldest_parts_are_deleted_beyond_the_size_that_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    _in_parts(path, keep_bytes=600)
    files = [*older_parts(path), path]
    assert sum(each.stat().st_size for each in files) <= 600
    assert files[0].name > "r.0002.jsonl"
    assert {job.id for job in load_recording(path).jobs} >= {"job-0", "job-4"}


def test_the_newest_file_alone_holds_every_job_that_has_not_left(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    _in_parts(path)
    assert [job.id for job in load_recording(path, most_older=0).jobs] == ["job-0"]


def test_a_recording_that_is_missing_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "r.jsonl"
    with pytest.raises(RecordingError, match="cannot be read"):
        print_recording(missing, io.BytesIO())
    assert main(["print", "--out", str(missing)]) == ExitCode.OUTSIDE
    assert "Fix:" in capsys.readouterr().err


def test_outside_of_a_pod_it_asks_for_a_kubeconfig(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert main(["record", "--out", str(tmp_path / "r.jsonl")]) == ExitCode.UNUSABLE
    assert "--kubeconfig" in capsys.readouterr().err
