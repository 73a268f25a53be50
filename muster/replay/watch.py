"""Records the Workloads of a cluster into a file: lists them, then watches, until it is asked to stop.

Reads only. What was observed is flushed every few seconds. A break of the connection costs nothing while the
server still has the events that were missed; where it has not, everything is listed again and the recording
has a gap.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from dataclasses import field as own
from typing import Any, Final

import structlog
from msgspec import field

from muster.controller.kube.client import Client
from muster.controller.kube.connection import Connection
from muster.controller.kube.errors import Unauthorized
from muster.controller.kube.reflector import Reflector
from muster.controller.kube.resource import Key, Object, Resource
from muster.errors import MusterError
from muster.live.web import Web
from muster.replay.errors import RecordingError
from muster.replay.lines import Mark
from muster.replay.recording import Gap
from muster.replay.tracker import Tracker
from muster.replay.writer import Writer

FLUSH_SECONDS: Final = 5.0
_REPORT_SECONDS: Final = 60.0
_LOGIN_SECONDS: Final = 10.0
_AGENT: Final = "muster-record"
_BEARER: Final = "Bearer "


class _Whole(Object, frozen=True):
    """A Workload as JSON: the snapshot's reader chooses its fields."""

    spec: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)


_WORKLOADS: Final = Resource(
    *("kueue.x-k8s.io", "v1beta2", "workloads", "Workload", True, _Whole), annotation_prefixes=()
)


def connection(web: Web) -> Connection:
    """How the watch reaches the server that `web` reaches."""
    authorization = web.headers.get("Authorization", "")
    if web.proxy or (authorization and not authorization.startswith(_BEARER)):
        raise RecordingError(
            f"{web.base}: a proxy or a password in the kubeconfig is not supported here.",
            fix="use a context with a token, a certificate or a credential plugin, and no proxy-url.",
        )
    token = authorization.removeprefix(_BEARER) or None
    return Connection(web.base, context=web.context, token=token)


@dataclass(slots=True)
class Recorder:
    """One recording. `connect` is called again when the server no longer accepts the credential. `progress`
    gets a sentence now and then.
    """

    connect: Callable[[], Connection]
    tracker: Tracker
    writer: Writer
    progress: Callable[[str], None]
    last_mark: float
    clock: Callable[[], float] = time.time
    _uids: dict[Key, str] = own(default_factory=dict)
    _refused: asyncio.Event = own(default_factory=asyncio.Event)
    _is_synced: bool = False
    _is_connected: bool = False
    _count: int = 0

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
        return self._count

    async def _follow(self) -> None:
        """Watch; with a new connection after the credential was refused."""
        connection = self.connect()
        while True:
            self._refused.clear()
            async with Client(connection, field_manager=_AGENT, user_agent=_AGENT) as client:
                reflector = Reflector(client, _WORKLOADS, self, watcher=self)
                watch = asyncio.create_task(reflector.run())
                refused = asyncio.create_task(self._refused.wait())
                try:
                    done, _ = await asyncio.wait({watch, refused}, return_when=asyncio.FIRST_COMPLETED)
                    if watch in done:
                        watch.result()
                finally:
                    for task in (watch, refused):
                        task.cancel()
                    await asyncio.gather(watch, refused, return_exceptions=True)
            await asyncio.sleep(_LOGIN_SECONDS)
            try:
                connection = self.connect()
            except MusterError as error:
                self.progress(f"no new credential, trying again: {error.message}")

    async def _tick(self) -> None:
        reported, count = self.clock(), self._count
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            self._flush()
            if self._count != count and self.clock() - reported >= _REPORT_SECONDS:
                reported, count = self.clock(), self._count
                self.progress(
                    f"{self._count} jobs recorded, {len(self.tracker.open)} of them waiting or running"
                )

    def _flush(self) -> None:
        if self._is_synced and self._is_connected:
            self.last_mark = self.clock()
            self.writer.add([Mark(self.last_mark)])
        self.writer.flush()

    # What the reflector calls with objects.

    def known(self, obj: _Whole) -> _Whole:
        return obj

    def replace(
        self, objects: list[_Whole], *, unreadable: Mapping[Key, str], version: str, new_history: bool
    ) -> None:
        now = self.clock()
        gone_at = now
        if now - self.last_mark > 2 * FLUSH_SECONDS:
            # What left in the gap left at an unknown time: the gap is no running time.
            gone_at = self.last_mark
            self.writer.add([Gap(self.last_mark, now)])
        self._uids = {each.key: each.metadata.uid for each in objects}
        self.writer.add(self.tracker.keep_only({*self._uids.values()}, at=gone_at))
        for each in objects:
            self.put(each)
        if not self._is_synced:
            self.progress(f"{len(self.tracker.open)} jobs wait or run now; watching")
        self._is_synced = self._is_connected = True

    def put(self, obj: _Whole) -> None:
        before, uid = self._uids.get(obj.key), obj.metadata.uid
        if before is not None and before != uid:
            self._leave(before, self.clock())
        self._uids[obj.key] = uid
        is_new = self.tracker.ids.of(uid) not in self.tracker.open
        job = self.tracker.observe(_as_json(obj))
        if job is not None:
            self._count += is_new
            self.writer.add([job])

    def remove(self, obj: _Whole) -> None:
        uid = self._uids.pop(obj.key, obj.metadata.uid)
        asked = obj.metadata.deletion_timestamp
        self._leave(uid, self.clock() if asked is None else asked.timestamp())

    def mark_unreadable(self, key: Key, message: str) -> None:
        self.progress(f"{key} cannot be read and is left out: {message}")

    def _leave(self, uid: str, at: float) -> None:
        job = self.tracker.remove(uid, at=at)
        if job is not None:
            self.writer.add([job])

    # What the reflector calls about the watch.

    def event(self, kind: str) -> None:
        pass

    def heard(self) -> None:
        self._is_connected = True

    def relisted(self, reason: str, count: int) -> None:
        pass

    def opened(self) -> None:
        self._is_connected = True

    def failed(self, error: Exception) -> None:
        if self._is_connected:
            self.progress(f"connection lost, trying again: {error}")
        self._is_connected = False
        if isinstance(error, Unauthorized):
            self._refused.set()


def quiet_logs() -> None:
    """Leave progress to `Recorder.progress`: the watch's own log is for a controller's operator."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))


def _as_json(obj: _Whole) -> dict[str, object]:
    meta = obj.metadata
    created = meta.creation_timestamp
    owners = [
        {"kind": each.kind, "name": each.name, "controller": each.controller}
        for each in meta.owner_references
    ]
    metadata = {
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
        "creationTimestamp": "" if created is None else created.isoformat(),
        "ownerReferences": owners,
    }
    return {"metadata": metadata, "spec": obj.spec, "status": obj.status}
