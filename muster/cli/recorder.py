"""Carries out `muster record`: opens or continues the file, and records until a signal.

Apart from the command, because its imports take longer than printing `--help` may.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from muster.cli.output import note
from muster.live.cluster.api import Api
from muster.live.web import Web, WebError
from muster.model import names
from muster.model.stack import Scheduler
from muster.replay.errors import RecordingError
from muster.replay.ids import Ids
from muster.replay.reader import load_recording
from muster.replay.recording import Header
from muster.replay.tracker import Tracker
from muster.replay.watch import Recorder, connection, quiet_logs
from muster.replay.writer import Writer

_WORKLOADS: Final = f"/apis/{names.KUEUE_API_VERSION}/workloads"
_LEFT_OUT: Final = (
    "Jobs that finished before the start.",
    "Times in which a Workload was deactivated: they count as waiting.",
    "Topology requests, admission checks' answers, and elastic changes of a running job's size.",
)
_NAMES_LEFT_OUT: Final = "Names of jobs; their ids are keyed hashes."


def record(
    connect: Callable[[], Web], out: Path, *, seconds: float | None, with_names: bool, rotate_bytes: int
) -> int:
    """Record into a file; how many jobs were seen. Ctrl-C and SIGTERM end it like the end of its time."""
    web = connect()
    connection(web)
    _check(Api(web))
    quiet_logs()
    with _open(out, with_names=with_names, rotate_bytes=rotate_bytes) as opened:
        recorder = Recorder(
            connect=lambda: connection(connect()),
            tracker=opened.tracker,
            writer=opened.writer,
            progress=note,
            last_mark=opened.last_mark,
        )
        return asyncio.run(_until_signal(recorder, seconds))


async def _until_signal(recorder: Recorder, seconds: float | None) -> int:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, stop.set)
    return await recorder.run(stop, seconds=seconds)


def _check(api: Api) -> None:
    """One small list, so that a missing right is an error now and not a retry for ever."""
    try:
        api.get(f"{_WORKLOADS}?limit=1")
    except WebError as error:
        if error.status != 404:
            raise
        raise WebError(
            f"{api.web.base}: it does not serve {names.KUEUE_API_VERSION}. Fix: use the context of a "
            "cluster with Kueue; PodGroups of KAI are not recorded yet.",
            status=404,
        ) from None


@dataclass(frozen=True, slots=True)
class _Opened:
    writer: Writer
    tracker: Tracker
    last_mark: float

    def __enter__(self) -> _Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self.writer.flush()


def _open(out: Path, *, with_names: bool, rotate_bytes: int) -> _Opened:
    open_file = _resume if out.exists() else _begin
    return open_file(out, with_names, rotate_bytes)


def _begin(out: Path, with_names: bool, rotate_bytes: int) -> _Opened:
    now = time.time()
    header = Header(
        scheduler=Scheduler.KUEUE,
        start=now,
        end=now,
        source="cluster",
        left_out=_LEFT_OUT if with_names else (*_LEFT_OUT, _NAMES_LEFT_OUT),
        has_names=with_names,
    )
    ids = Ids.create(out)
    try:
        writer = Writer.begin(out, header, rotate_bytes=rotate_bytes)
    except RecordingError:
        Ids.discard(out)
        raise
    return _Opened(writer, Tracker(ids=ids, start=now, with_names=with_names), now)


def _resume(out: Path, with_names: bool, rotate_bytes: int) -> _Opened:
    found = load_recording(out)
    header = found.header
    if header.source != "cluster" or header.has_names != with_names:
        what = "it was imported" if header.source != "cluster" else "it was begun with another --with-names"
        raise RecordingError(f"{out}: cannot be continued: {what}.", fix="record into another file.")
    for warning in found.warnings:
        note(warning)
    tracker = Tracker(ids=Ids.load(out), start=header.start, with_names=with_names)
    tracker.restore(found)
    note(f"{out}: continued; it holds {len(found.jobs)} jobs")
    return _Opened(Writer.resume(out, found, rotate_bytes=rotate_bytes), tracker, header.end)
