"""What the recorder writes when everything is listed again."""

from pathlib import Path

from muster.controller.kube.connection import Connection
from muster.model.stack import Scheduler
from muster.replay.moment import Tracker
from muster.replay.recording import Gap, Header, Ids
from muster.replay.recording_file import Writer, load_recording
from muster.replay.sources import WORKLOADS, Workloads
from muster.replay.watch import Recorder
from tests.unit.preview.snapshot_world import workload


def _unconnected() -> Connection:
    raise AssertionError("no connection is needed")


def test_what_a_watch_brings_at_the_same_time_keeps_its_order(tmp_path: Path) -> None:
    header = Header(scheduler=Scheduler.KUEUE, start=100.0, end=100.0, source="cluster")
    with Writer.begin(tmp_path / "day.jsonl", header) as writer:
        recorder = Recorder(
            connect=_unconnected,
            source=Workloads(Tracker(ids=Ids(b"key"), start=0)),
            writer=writer,
            progress=lambda _: None,
            last_mark=100.0,
            clock=lambda: 100.0004,
        )
        moments = [round(recorder.next_moment(), 3) for _ in range(3)]
    assert moments == [100.0, 100.001, 100.002]


def test_a_job_that_left_while_nothing_watched_did_not_run_through_the_gap(tmp_path: Path) -> None:
    path = tmp_path / "day.jsonl"
    tracker = Tracker(ids=Ids(b"key"), start=0)
    job = tracker.observe(workload(state="admitted"))
    assert job is not None
    mark = job.created + 3600
    header = Header(scheduler=Scheduler.KUEUE, start=job.created, end=mark, source="cluster")
    with Writer.begin(path, header) as writer:
        writer.add([job])
        recorder = Recorder(
            connect=_unconnected,
            source=Workloads(tracker),
            writer=writer,
            progress=lambda _: None,
            last_mark=mark,
            clock=lambda: mark + 7200,
        )
        recorder.listed(WORKLOADS, [])
    found = load_recording(path)
    assert found.gaps == (Gap(mark, mark + 7200),)
    assert found.jobs[0].left == mark
