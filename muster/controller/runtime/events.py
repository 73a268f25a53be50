"""Kubernetes Events: what a user reads under `kubectl describe`.

Repetitions about the same object become one Event with a count; an object gets a burst and then one Event
every few minutes, the process a bounded rate. Recording never raises, never waits, and loses Events rather
than slow a reconcile: the status is the source of truth.
"""

import asyncio
import contextlib
import hashlib
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import structlog

from muster.controller.kube.client import Client
from muster.controller.kube.errors import (
    AlreadyExists,
    KubeError,
    NotFound,
    ServerError,
    TooManyRequests,
    TransportError,
)
from muster.controller.kube.resource import Key, Object, Resource
from muster.controller.runtime.clock import utc_now
from muster.controller.runtime.metrics import Metrics

EVENT = Resource("events.k8s.io", "v1", "events", "Event", namespaced=True, type=Object)

NOTE_BYTES = 1024
"""The API's limit for a note."""
WAITING = 1000
"""Events that may wait to be written; more are dropped."""
SERIES = 4096
"""Distinct news that are remembered for counting."""
SERIES_SECONDS = 360.0
"""News repeated within this time count on in one Event; the API server keeps Events for an hour."""
OBJECT_BURST = 25
OBJECT_REFILL = 1 / 300
"""client-go's bound for one object: 25, then one in five minutes."""
PROCESS_BURST = 100
PROCESS_REFILL = 10.0
WRITE_TIMEOUT = 10.0
PAUSES = (1.0, 3.0)
"""Seconds before an Event is written again that the server did not take."""

Kind = Literal["Normal", "Warning"]


@dataclass(frozen=True, slots=True)
class Reference:
    """The object that an Event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    @classmethod
    def to(cls, resource: Resource[Any], obj: Object) -> "Reference":
        meta = obj.metadata
        return cls(resource.api_version, resource.kind, meta.namespace, meta.name, meta.uid)


@dataclass(frozen=True, slots=True)
class _News:
    about: Reference
    kind: Kind
    reason: str
    action: str
    note: str


@dataclass(slots=True)
class _Series:
    key: Key
    count: int
    last: float


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float

    def take(self, *, now: float, burst: float, refill: float) -> bool:
        self.tokens = min(burst, self.tokens + (now - self.at) * refill)
        self.at = now
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


class EventRecorder:
    """Records Events in the background. `event` may be called from any reconcile; `run` writes them."""

    def __init__(
        self,
        client: Client,
        *,
        reporter: str,
        instance: str,
        metrics: Metrics,
        wall_clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._client, self._reporter, self._instance = client, reporter, instance
        self._wall_clock = wall_clock
        self._fate = metrics.events
        self._waiting: dict[Kind, deque[_News]] = {"Warning": deque(), "Normal": deque()}
        """Warnings are written first, and dropped last."""
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._series: OrderedDict[_News, _Series] = OrderedDict()
        self._objects: OrderedDict[str, _Bucket] = OrderedDict()
        self._process: _Bucket | None = None
        self._log = structlog.get_logger("events")

    def event(self, about: Reference, kind: Kind, *, reason: str, action: str, note: str) -> None:
        """Record news about an object. `reason` and `action` are CamelCase words; the note is cut to 1
        KiB.
        """
        note = note.encode()[:NOTE_BYTES].decode(errors="ignore")
        warnings, normals = self._waiting.values()
        if len(warnings) + len(normals) >= WAITING:
            self._fate.labels("dropped").inc()
            if kind == "Normal" or not normals:
                return
            normals.popleft()
        self._waiting[kind].append(_News(about, kind, reason[:128], action[:128], note))
        self._idle.clear()
        self._wake.set()

    async def run(self) -> None:
        """Write what is recorded, forever."""
        while True:
            while waiting := next((each for each in self._waiting.values() if each), None):
                await self._write(waiting.popleft())
            self._idle.set()
            self._wake.clear()
            await self._wake.wait()

    async def drained(self, *, seconds: float) -> None:
        """Wait until all that was recorded is written, but no longer than this."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._idle.wait()

    async def _write(self, news: _News) -> None:
        if not self._may_write(news):
            self._fate.labels("dropped").inc()
            return
        await self._await_turn()
        try:
            async with asyncio.timeout(WRITE_TIMEOUT):
                await self._repeat_or_create(news)
            self._fate.labels("written").inc()
        except (KubeError, TimeoutError) as error:
            self._fate.labels("failed").inc()
            self._log.info(
                "event not written",
                reason=news.reason,
                uid=news.about.uid,
                error=str(error) or "timeout",
            )
        except Exception:
            self._fate.labels("failed").inc()
            self._log.exception("event not written", reason=news.reason, uid=news.about.uid)

    def _may_write(self, news: _News) -> bool:
        now = self._now()
        bucket = self._objects.setdefault(news.about.uid, _Bucket(OBJECT_BURST, now))
        self._objects.move_to_end(news.about.uid)
        if len(self._objects) > SERIES:
            self._objects.popitem(last=False)
        return bucket.take(now=now, burst=OBJECT_BURST, refill=OBJECT_REFILL)

    async def _await_turn(self) -> None:
        """Within the rate of the process. What waits meanwhile is bounded: gangs that fail together all get
        their Event, which may be the only place that says why.
        """
        if self._process is None:
            self._process = _Bucket(PROCESS_BURST, self._now())
        while not self._process.take(now=self._now(), burst=PROCESS_BURST, refill=PROCESS_REFILL):
            await asyncio.sleep(1 / PROCESS_REFILL)

    async def _repeat_or_create(self, news: _News) -> None:
        series = self._series.get(news)
        if series is not None and self._now() - series.last < SERIES_SECONDS:
            series.count, series.last = series.count + 1, self._now()
            body = {"series": {"count": series.count, "lastObservedTime": self._stamp()}}
            try:
                await self._client.merge_patch(EVENT, series.key, body)
                return
            except NotFound:
                del self._series[news]
        await self._create(news)

    async def _create(self, news: _News) -> None:
        moment = self._stamp()
        digest = hashlib.sha256(f"{news}{moment}{self._instance}".encode()).hexdigest()[:16]
        # An Event about a cluster-scoped object lives in `default`, where kubectl looks for it.
        key = Key(news.about.namespace or "default", f"{news.about.name[:200].rstrip('.-')}.{digest}")
        await self._create_with_retries(key, self._body(news, key, moment))
        self._series[news] = _Series(key, 1, self._now())
        self._series.move_to_end(news)
        if len(self._series) > SERIES:
            self._series.popitem(last=False)

    async def _create_with_retries(self, key: Key, body: dict[str, Any]) -> None:
        """Again where the server fails, is busy or does not answer: it may be back in a moment, and no two
        Events have this name.
        """
        for pause in (*PAUSES, None):
            try:
                await self._client.create(EVENT, body, namespace=key.namespace)
            except AlreadyExists:
                return  # The answer was lost.
            except (ServerError, TooManyRequests, TransportError):
                if pause is None:
                    raise
                await asyncio.sleep(pause)
            else:
                return

    def _body(self, news: _News, key: Key, moment: str) -> dict[str, Any]:
        about = news.about
        return {
            "metadata": {"namespace": key.namespace, "name": key.name},
            "eventTime": moment,
            "reportingController": self._reporter,
            "reportingInstance": self._instance[:128],
            "action": news.action,
            "reason": news.reason,
            "type": news.kind,
            "note": news.note,
            "regarding": {
                "apiVersion": about.api_version,
                "kind": about.kind,
                "namespace": about.namespace,
                "name": about.name,
                "uid": about.uid,
            },
        }

    def _stamp(self) -> str:
        return self._wall_clock().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
