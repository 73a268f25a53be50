"""Records the jobs of a cluster into a file: lists what its source is made from, then watches, until it is
asked to stop.

Reads only. What was observed is flushed every few seconds. A break of the connection costs nothing while the
server still has the events that were missed; where it has not, everything is listed again and the recording
has a gap.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as own
from typing import Final

import structlog

from muster.controller.kube.client import Client
from muster.controller.kube.connection import Connection
from muster.controller.kube.errors import Unauthorized
from muster.controller.kube.reflector import Reflector
from muster.controller.kube.resource import Key, Object
from muster.errors import MusterError
from muster.model.quantities import many
from muster.replay.recording import Gap, Job, Node
from muster.replay.source import Kind, Source
from muster.replay.stored import Mark
from muster.replay.writer import Writer

AGENT: Final = "muster-record"
FLUSH_SECONDS: Final = 5.0
_MILLISECOND: Final = 0.001
_REPORT_SECONDS: Final = 60.0
_LOGIN_SECONDS: Final = 10.0


@dataclass(slots=True)
class Recorder:
    """One recording. `connect` is called again when the server no longer accepts the credential. `progress`
    gets a sentence now and then. `last_mark`: until when everything is recorded.
    """

    connect: Callable[[], Connection]
    source: Source
    writer: Writer
    progress: Callable[[str], None]
    last_mark: float
    clock: Callable[[], float] = time.time
    _refused: asyncio.Event = own(default_factory=asyncio.Event)
    _unlisted: set[Kind] = own(default_factory=set)
    _unconnected: set[Kind] = own(default_factory=set)
    _gap_start: float | None = None
    _moment: float = 0.0

    def __post_init__(self) -> None:
        self._unlisted = {*self.source.kinds}
        self._unconnected = {*self.source.kinds}

    async def run(self, stop: asyncio.Event, *, seconds: float | None) -> int:
        """Record until `stop` is set or the time is over; how many jobs were seen."""
        ticker = asyncio.create_task(self._tick())
        follower = asyncio.create_task(self._follow())
        stopped = asyncio.create_task(stop.wait())
        tasks = {ticker, follower, stopped}
        try:
            done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            for task in done - {stopped}:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        self._flush()
        return self.source.count

    async def _follow(self) -> None:
        """Watch; with a new connection after the credential was refused."""
        connection = self.connect()
        while True:
            self._refused.clear()
            async with Client(connection, field_manager=AGENT, user_agent=AGENT) as client:
                watches = (self._watch(client, kind) for kind in self.source.kinds)
                tasks = [asyncio.create_task(each) for each in (*watches, self._until_refused())]
                try:
                    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                    for task in done:
                        task.result()
                finally:
                    for task in tasks:
                        task.cancel()
                    await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.sleep(_LOGIN_SECONDS)
            try:
                connection = self.connect()
            except MusterError as error:
                self.progress(f"no new credential, trying again: {error.message}")

    async def _watch(self, client: Client, kind: Kind) -> None:
        sink = _Sink(self, kind)
        await Reflector(client, kind.resource, sink, watcher=sink, selection=kind.selection).run()

    async def _until_refused(self) -> None:
        await self._refused.wait()

    async def _tick(self) -> None:
        reported, count = self.clock(), self.source.count
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            self._flush()
            if self.source.count != count and self.clock() - reported >= _REPORT_SECONDS:
                reported, count = self.clock(), self.source.count
                self.progress(
                    f"{many(count, 'job')} recorded, {self.source.open_count} of them waiting or running"
                )

    def _flush(self) -> None:
        if not self._unlisted and not self._unconnected:
            self.last_mark, self._gap_start = self.clock(), None
            self.writer.add([Mark(self.last_mark)])
        self.writer.flush()

    def listed(self, kind: Kind, objects: list[Object]) -> None:
        now = self.clock()
        gone_at = self._gap(now)
        self.writer.add(self.source.replace(kind, objects, at=now, gone_at=gone_at))
        is_first = bool(self._unlisted)
        self._unlisted.discard(kind)
        self._unconnected.discard(kind)
        if is_first and not self._unlisted:
            self.progress(
                f"{many(self.source.open_count, 'job waits or runs', 'jobs wait or run')} now; watching"
            )

    def next_moment(self) -> float:
        """Now, but a millisecond after the last at least, so that the file keeps the order of the watch."""
        self._moment = max(self.clock(), self._moment + _MILLISECOND)
        return self._moment

    def changed(self, lines: Sequence[Job | Node]) -> None:
        self.writer.add(lines)

    def connected(self, kind: Kind) -> None:
        self._unconnected.discard(kind)

    def failed(self, kind: Kind, error: Exception) -> None:
        if not self._unconnected:
            self.progress(f"connection lost, trying again: {error}")
        self._unconnected.add(kind)
        if isinstance(error, Unauthorized):
            self._refused.set()

    def _gap(self, now: float) -> float:
        """Since when nothing was recorded, where that is long ago: what left meanwhile left at an unknown
        time, and the gap is no running time.
        """
        if now - self.last_mark > 2 * FLUSH_SECONDS:
            self.writer.add([Gap(self.last_mark, now)])
            self._gap_start = self.last_mark if self._gap_start is None else self._gap_start
            self.last_mark = now
        return now if self._gap_start is None else self._gap_start


@dataclass(frozen=True, slots=True)
class _Sink:
    """What the reflector of one kind calls."""

    recorder: Recorder
    kind: Kind

    def known(self, obj: Object) -> Object:
        return obj

    def replace(
        self, objects: list[Object], *, unreadable: Mapping[Key, str], version: str, new_history: bool
    ) -> None:
        self.recorder.listed(self.kind, objects)

    def put(self, obj: Object) -> None:
        recorder = self.recorder
        recorder.changed(recorder.source.put(self.kind, obj, at=recorder.next_moment()))

    def remove(self, obj: Object) -> None:
        recorder = self.recorder
        recorder.changed(recorder.source.remove(self.kind, obj, at=recorder.next_moment()))

    def mark_unreadable(self, key: Key, message: str) -> None:
        self.recorder.progress(f"{key} cannot be read and is left out: {message}")

    def event(self, kind: str) -> None:
        pass

    def heard(self) -> None:
        self.recorder.connected(self.kind)

    def relisted(self, reason: str, count: int) -> None:
        pass

    def opened(self) -> None:
        self.recorder.connected(self.kind)

    def failed(self, error: Exception) -> None:
        self.recorder.failed(self.kind, error)


def quiet_logs() -> None:
    """Leave progress to `Recorder.progress`: the watch's own log is for a controller's operator."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
