"""Writes on each waiting Workload when it may start (`muster.dev/forecast`), in the pod of a recorder.

A round reads the cluster's queues and Workloads, plays one set of futures for all that wait, and writes what
has changed. Responsible for reading, writing and the pace.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import ceil, floor
from pathlib import Path
from typing import Any, Final

from muster.controller.kube.client import Client
from muster.controller.kube.connection import Connection
from muster.controller.kube.errors import Conflict, Forbidden, KubeError, NotFound
from muster.controller.kube.resource import Key, Object, Resource
from muster.errors import ExitCode, MusterError
from muster.live.fields import text, texts
from muster.live.snapshot import Snapshot, kueue
from muster.model import names
from muster.model.stack import Scheduler
from muster.replay.figures import NEVER
from muster.replay.forecast import Forecast, Settings, forecast_all
from muster.replay.moment import Moment, at_moment, is_over, moment_of
from muster.replay.player import Manifest, Playback
from muster.replay.recording import RecordingError, limited_memory
from muster.replay.recording_file import load_recording
from muster.replay.side import KueueDecider, Side, Subject, of_cluster
from muster.replay.sources import WORKLOADS
from muster.replay.watch import quiet_logs

# What is written on a waiting Workload about its start: the words, and when they are worth a write. Pure.

LEAST_SECONDS: Final = 600
"""Between two writes of a note."""

_STALE_SECONDS: Final = 3600
_STEP: Final = 600
_AS_OF: Final = ", as of "
_NOTE: Final = re.compile(
    rf"(?P<start>.*?)(, place (?P<place>[0-9]{{1,9}}) of [0-9]+)?{_AS_OF}(?P<at>\S+)", re.DOTALL
)
_PLACES: Final = 0.25
"""The part of its place by which a job has to come nearer: with each job that starts, all others do."""


def to_note(found: Forecast) -> str:
    """Times are UTC, the interval's rounded outwards to ten minutes."""
    return f"{_start(found)}, place {found.place} of {found.waiting}{_AS_OF}{_time(found.at)}"


def next_note(before: str | None, after: str | None, *, now: float) -> str | None:
    """What the Workload is to have. `after` is None where nothing could be said in this round."""
    if before is None:
        return after
    start, place, at = _parsed(before)
    age = now - at
    if after is None:
        return before if age < _STALE_SECONDS else None
    next_start, next_place, _ = _parsed(after)
    has_moved = abs(next_place - place) >= max(1, _PLACES * place)
    is_news = next_start != start or has_moved or age >= _STALE_SECONDS
    # A round may begin a little early.
    return after if is_news and age >= LEAST_SECONDS - _STEP / 10 else before


def _start(found: Forecast) -> str:
    if found.latest == 0:
        return "starts at once"
    if found.earliest == NEVER:
        return f"starts after {_time(found.at + found.seconds)} (80 %)"
    earliest = _time(floor((found.at + found.earliest) / _STEP) * _STEP)
    if found.latest == NEVER:
        return f"starts {earliest} or later (80 %)"
    return f"starts {earliest} to {_time(ceil((found.at + found.latest) / _STEP) * _STEP)} (80 %)"


def _time(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%MZ}"


def _parsed(note: str) -> tuple[str, int, float]:
    """The start, the place and the time of a note. One that is not ours is very old."""
    found = _NOTE.fullmatch(note)
    try:
        at = datetime.fromisoformat(found["at"]).timestamp() if found else 0.0
    except ValueError:
        found, at = None, 0.0
    return (found["start"], int(found["place"] or 0), at) if found else (note, 0, at)


AGENT: Final = "muster-forecast"
ROUND_SECONDS: Final = 600.0
# Fewer say nothing about how long jobs run.
LEAST_ENDED: Final = 20
# Of the player, in MiB. With 5,000 Workloads, 128 MiB take more processor time, and this fits the pod.
PLAYER_MEMORY: Final = 512
# Each part is some 60,000 jobs. Older ones tell less of the days to come.
_OLDER_PARTS: Final = 1
_GROUP: Final = ("kueue.x-k8s.io", "v1beta2")
_QUEUES: Final[tuple[Resource[Object], ...]] = (
    Resource("", "v1", "namespaces", "Namespace", False, Object),
    Resource(*_GROUP, "resourceflavors", "ResourceFlavor", False, Object),
    Resource(*_GROUP, "cohorts", "Cohort", False, Object),
    Resource(*_GROUP, "clusterqueues", "ClusterQueue", False, Object),
    Resource(*_GROUP, "localqueues", "LocalQueue", True, Object),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """`recording`: what durations and arrivals are learned from; it may grow meanwhile. `program`: the
    player. `config`: Kueue's configuration. `is_once` ends after a round. `memory`: bytes that this program
    may use beside its player; None for no limit.
    """

    recording: Path
    program: Path
    config: Manifest
    settings: Settings
    is_once: bool = False
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class _Noted:
    """A Workload that has a note."""

    uid: str
    note: str


@dataclass(slots=True)
class _Seen:
    """The Workloads that have not finished: the moment, their uids, and the notes of all."""

    moment: Moment
    uids: Mapping[Key, str]
    notes: dict[Key, _Noted]


def follow(order: Order, connect: Callable[[], Connection], progress: Callable[[str], None]) -> None:
    """Forecast until a signal. MusterError where the player or a right is missing."""
    if not order.program.is_file():
        raise RecordingError(
            f"{order.program}: this image has no player.",
            fix="`muster image push STACK` makes one with it for a stack with `forecasts: true`.",
        )
    quiet_logs()
    with limited_memory(order.memory) if order.memory else nullcontext():
        asyncio.run(Forecaster(order, connect, progress).run())


@dataclass(slots=True)
class Forecaster:
    order: Order
    connect: Callable[[], Connection]
    progress: Callable[[str], None]
    clock: Callable[[], float] = time.time
    _said: str = field(default="", init=False)

    async def run(self) -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(each, stop.set)
        async with Client(self.connect(), field_manager=AGENT, user_agent=AGENT) as client:
            while not stop.is_set():
                began = time.monotonic()
                await self._round(client)
                if self.order.is_once:
                    return
                took = time.monotonic() - began
                with suppress(TimeoutError):
                    # At most half of the time is spent on a cluster whose forecasts take long.
                    await asyncio.wait_for(stop.wait(), timeout=max(ROUND_SECONDS - took, took))

    async def _round(self, client: Client) -> None:
        try:
            seen = await self._look(client)
            # Notes that are out of date go now: the forecast takes long, and may fail.
            written = await self._write(client, seen, {})
            found = await self._forecast(client, seen) if seen.moment.waiting else {}
            written += await self._write(client, seen, found)
        except Forbidden as error:
            raise RecordingError(
                f"{error}.",
                fix='give it the rights that the page "Replay" of the documentation lists for forecasts.',
                exit_code=ExitCode.OUTSIDE,
            ) from None
        except KubeError as error:
            self.progress(f"this round failed, trying again in the next: {error}")
            return
        except MemoryError:
            self.progress(
                "this round failed, trying again in the next: the cluster's Workloads and the recording "
                "need more memory than the forecaster may use. What it was measured with is on the page "
                '"Replay" of the documentation.'
            )
            return
        self.progress(f"{len(seen.moment.waiting)} jobs wait, {len(found)} forecasts, {written} writes")

    async def _look(self, client: Client) -> _Seen:
        workloads, uids, notes = [], {}, {}
        async for each in _all(client, WORKLOADS.resource):
            key = Key(text(each, "metadata", "namespace"), text(each, "metadata", "name"))
            note = texts(each, "metadata", "annotations").get(names.FORECAST_ANNOTATION)
            if note is not None:
                notes[key] = _Noted(text(each, "metadata", "uid"), note)
            if (workload := kueue.to_workload(each)) is not None:
                workloads.append(workload)
                uids[key] = text(each, "metadata", "uid")
        taken = datetime.fromtimestamp(self.clock(), UTC).replace(microsecond=0)
        snapshot = Snapshot(taken=taken, scheduler=Scheduler.KUEUE, queues=(), workloads=tuple(workloads))
        return _Seen(moment_of(snapshot), uids, notes)

    async def _forecast(self, client: Client, seen: _Seen) -> dict[Key, str]:
        """The note of each job about which something can be said now."""
        objects = [
            {**each, "apiVersion": resource.api_version, "kind": resource.kind}
            for resource in _QUEUES
            async for each in _all(client, resource)
        ]
        order, moment = self.order, seen.moment
        try:
            recording = load_recording(order.recording, most_older=_OLDER_PARTS)
            history = at_moment(recording, min(recording.header.end, moment.at))
            ended = sum(is_over(job, history.at) for job in history.past)
            if ended < LEAST_ENDED:
                self._say(f"{ended} jobs have ended in the recording; forecasts begin with {LEAST_ENDED}")
                return {}
            outlook = await asyncio.to_thread(
                forecast_all,
                KueueDecider(of_cluster(objects, order.config)),
                recording.header,
                moment,
                history=history,
                player=self._play,
                settings=order.settings,
            )
        except MusterError as error:
            self._say(f"no forecast: {error}")
            return {}
        self._say(_shortened(outlook.forecasts, order.settings))
        return {Key(*each.job.split("/", 1)): to_note(each) for each in outlook.forecasts}

    def _play(self, side: Subject) -> Playback:
        assert isinstance(side, Side)
        return replace(side, world=replace(side.world, memory=PLAYER_MEMORY)).play(self.order.program)

    async def _write(self, client: Client, seen: _Seen, found: Mapping[Key, str]) -> int:
        """How many notes were written or removed."""
        waiting = {Key(job.team, job.id) for job in seen.moment.waiting}
        now, written = self.clock(), 0
        for key in sorted(waiting | seen.notes.keys()):
            noted = seen.notes.get(key)
            before = None if noted is None else noted.note
            after = next_note(before, found.get(key), now=now) if key in waiting else None
            if after != before:
                uid = seen.uids[key] if noted is None else noted.uid
                written += await _annotate(client, key, uid, after)
                if after is None:
                    del seen.notes[key]
        return written

    def _say(self, sentence: str) -> None:
        """Once for as long as it stays true."""
        if sentence and sentence != self._said:
            self.progress(sentence)
        self._said = sentence


def _shortened(found: Sequence[Forecast], asked: Settings) -> str:
    """What the limit of time left out, "" for nothing."""
    if not found or asked.limit is None or (found[0].runs, found[0].seconds) == (asked.runs, asked.seconds):
        return ""
    runs, hours = found[0].runs, found[0].seconds / 3600
    return (
        f"in {asked.limit / 60:.0f} minutes {runs} of {asked.runs} futures were played, "
        f"{hours:.1f} of {asked.seconds / 3600:.0f} hours of each"
    )


async def _annotate(client: Client, key: Key, uid: str, note: str | None) -> bool:
    """False where the Workload is gone, or another one has its name."""
    body = {"metadata": {"uid": uid, "annotations": {names.FORECAST_ANNOTATION: note}}}
    try:
        await client.merge_patch(WORKLOADS.resource, key, body)
    except (NotFound, Conflict):
        return False
    return True


async def _all(client: Client, resource: Resource[Any]) -> AsyncIterator[dict[str, Any]]:
    """Every object as JSON, page by page."""
    async with aclosing(client.pages(resource)) as pages:
        async for page in pages:
            for raw in page.items or ():
                yield json.loads(bytes(raw))
