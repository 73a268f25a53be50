"""Plays the jobs: what a job does when Kueue evicts its Workload, and that it ends.

Decides when Kueue is done: every Workload that waits was looked at, and nothing has moved for a while.
Leaves what was decided to outcome.py.
"""

import asyncio
import json
import ssl
import time
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import aiohttp

from muster.live.fields import mapping, text
from muster.local.envtest import ControlPlane
from muster.model import names
from muster.preview.whatif import probe
from muster.preview.whatif.outcome import find_condition, is_true, parse_preemptor
from muster.preview.whatif.probe import Probes

_WORKLOADS: Final = f"/apis/{names.KUEUE_API_VERSION}/workloads"
_PAGE: Final = 500
# Long beside the pause between two of Kueue's cycles, which is milliseconds, and beside the second for which
# it collects what has become worth another look.
_SETTLE_SECONDS: Final = 3.0
# What waits behind others in a strict queue is never looked at: then quiet alone is the sign.
_QUIET_SECONDS: Final = 8.0
# On a machine where Kueue takes long to answer, quiet has to last so many times as long.
_SETTLE_ANSWERS, _QUIET_ANSWERS = 5, 15
_PROBE_SECONDS: Final = 1.0
# Between two words about how far Kueue is.
_PROGRESS_SECONDS: Final = 10.0
_PATCH: Final = {"Content-Type": "application/merge-patch+json"}

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Clock:
    """How long jobs run: `durations` by namespace, "" for the others, in seconds; and how many of those
    seconds pass in one of ours.
    """

    durations: Mapping[str, float]
    compression: float

    def left(self, namespace: str, ran: float) -> float | None:
        """Of our seconds, until a job that ran for `ran` of its own ends; None where nobody said how long."""
        found = self.durations.get(namespace, self.durations.get(""))
        return None if found is None else max(found - ran, 0.0) / self.compression


@dataclass(slots=True)
class JobSimulator:
    """Watches every Workload of a throw-away control plane until Kueue has decided.

    `shapes`: uid -> what it asks for, of whom, how urgently: equal ones share their fate.
    `ran`: uid -> for how many seconds of its time a Workload has run, of those that hold quota at the start.
    `preempted`: uid -> (uid of who did it, reason), by the first preemption of each. `admitted`: uid ->
    seconds since the start, of those that waited. `progress` hears every now and then how far Kueue is.
    """

    plane: ControlPlane
    clock: Clock | None = None
    ran: Mapping[str, float] = field(default_factory=dict)
    shapes: Mapping[str, Hashable] = field(default_factory=dict)
    progress: Progress = print
    workloads: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    preempted: dict[str, tuple[str, str]] = field(default_factory=dict)
    admitted: dict[str, float] = field(default_factory=dict)
    _turns: Probes = field(default_factory=Probes)
    _moved: float = 0.0
    _begun: float = 0.0
    _ends: dict[str, asyncio.TimerHandle] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def play(self, *, most: float) -> bool:
        """Until Kueue is done, or `most` seconds are over: whether it is done."""
        self._begun = self._moved = time.monotonic()
        context = ssl.create_default_context(cafile=str(self.plane.certificate))
        headers = {"Authorization": f"Bearer {self.plane.token}"}
        connector = aiohttp.TCPConnector(ssl=context, limit=32)
        timeout = aiohttp.ClientTimeout(total=None, sock_read=most)
        async with aiohttp.ClientSession(
            self.plane.url, headers=headers, connector=connector, timeout=timeout
        ) as session:
            version = await self._list(session)
            watch = asyncio.create_task(self._follow(session, version))
            try:
                return await self._until_done(session, watch, end=self._begun + most)
            finally:
                for handle in self._ends.values():
                    handle.cancel()
                for task in (watch, *self._tasks):
                    task.cancel()
                await asyncio.gather(watch, *self._tasks, return_exceptions=True)

    async def _until_done(
        self, session: aiohttp.ClientSession, watch: asyncio.Task[None], *, end: float
    ) -> bool:
        word = self._begun + _PROGRESS_SECONDS
        while (now := time.monotonic()) < end:
            if watch.done():
                watch.result()
                raise AssertionError("following ends with the player alone")
            if self._is_done(now):
                return True
            if self._is_time_to_ask(now):
                await self._ask(session)
            if now > word:
                word = now + _PROGRESS_SECONDS
                decided = sum(map(_is_decided, self.workloads.values()))
                self.progress(f"{decided} of {len(self.workloads)} Workloads decided")
            await asyncio.sleep(0.2)
        return False

    @property
    def reasons(self) -> dict[Hashable, str]:
        """Why Workloads of each shape wait."""
        return {
            self.shapes.get(uid): text(find_condition(each, "QuotaReserved"), "message")
            for uid, each in self.workloads.items()
            if has_reason(each)
        }

    def _is_done(self, now: float) -> bool:
        if self._ends or self._tasks:
            return False
        took, quiet = self._turns.took(self._moved), now - self._moved
        if took is None or quiet <= max(_SETTLE_SECONDS, _SETTLE_ANSWERS * took):
            return False
        return quiet > max(_QUIET_SECONDS, _QUIET_ANSWERS * took) or not self._undecided()

    def _is_time_to_ask(self, now: float) -> bool:
        is_quiet = now - self._moved > _PROBE_SECONDS and not (self._ends or self._tasks)
        return is_quiet and not self._turns.is_open and self._turns.asked <= self._moved

    async def _ask(self, session: aiohttp.ClientSession) -> None:
        async with session.post(probe.PATH, json=self._turns.ask()) as answer:
            answer.raise_for_status()

    def _undecided(self) -> bool:
        """Kueue looks at one of several that are alike, and says nothing of the others (its gate
        SchedulingEquivalenceHashing).
        """
        told = {self.shapes.get(uid) for uid, each in self.workloads.items() if has_reason(each)}
        return any(
            not _is_decided(each) and self.shapes.get(uid) not in told for uid, each in self.workloads.items()
        )

    async def _list(self, session: aiohttp.ClientSession) -> str:
        """All of them, page by page; the version from which a watch goes on."""
        token = ""
        while True:
            async with session.get(_WORKLOADS, params={"limit": _PAGE, "continue": token}) as answer:
                answer.raise_for_status()
                page = await answer.json()
            for each in page["items"]:
                self._see(session, each)
            token = page["metadata"].get("continue", "")
            if not token:
                return str(page["metadata"]["resourceVersion"])

    async def _follow(self, session: aiohttp.ClientSession, version: str) -> None:
        """A watch that the server ends, as it does when it is read too slowly, goes on from a new list."""
        while True:
            with suppress(aiohttp.ClientConnectionError, aiohttp.ClientPayloadError):
                await self._watch(session, version)
            version = await self._list(session)

    async def _watch(self, session: aiohttp.ClientSession, version: str) -> None:
        params = {"watch": "true", "resourceVersion": version, "timeoutSeconds": "86400"}
        async with session.get(_WORKLOADS, params=params) as answer:
            answer.raise_for_status()
            buffer = b""
            async for chunk in answer.content.iter_any():
                *lines, buffer = (buffer + chunk).split(b"\n")
                for line in lines:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        return
                    if not probe.is_probe(event["object"]):
                        self._moved = time.monotonic()
                    self._see(session, event["object"])

    def _see(self, session: aiohttp.ClientSession, workload: Mapping[str, Any]) -> None:
        if probe.is_probe(workload):
            self._turns.see(workload)
            return
        uid = workload["metadata"]["uid"]
        self.workloads[uid] = workload
        by, how = parse_preemptor(workload)
        if how:
            self.preempted.setdefault(uid, (by, how))
        if is_true(workload, "QuotaReserved"):
            if is_true(workload, "Evicted"):
                self._do(self._give_back(session, workload))
            elif uid not in self.ran or uid in self.preempted:
                self.admitted.setdefault(uid, time.monotonic() - self._begun)
            self._schedule_end(session, uid, workload)

    def _schedule_end(self, session: aiohttp.ClientSession, uid: str, workload: Mapping[str, Any]) -> None:
        if (
            self.clock is None
            or uid in self._ends
            or is_true(workload, "Finished")
            or is_true(workload, "Evicted")
        ):
            return
        ran = 0.0 if uid in self.preempted else self.ran.get(uid, 0.0)
        length = self.clock.left(workload["metadata"]["namespace"], ran)
        if length is None:
            return
        self._ends[uid] = asyncio.get_running_loop().call_later(length, self._finish, session, uid)

    def _finish(self, session: aiohttp.ClientSession, uid: str) -> None:
        del self._ends[uid]
        workload = self.workloads[uid]
        if is_true(workload, "QuotaReserved") and not is_true(workload, "Evicted"):
            self._do(self._end(session, workload))

    def _do(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _give_back(self, session: aiohttp.ClientSession, workload: Mapping[str, Any]) -> None:
        """What every job integration of Kueue does once an evicted job's pods are gone."""
        if (handle := self._ends.pop(workload["metadata"]["uid"], None)) is not None:
            handle.cancel()
        gone = {
            "status": "False",
            "reason": "Pending",
            "message": text(find_condition(workload, "Evicted"), "message"),
        }
        changes = {"QuotaReserved": gone}
        if is_true(workload, "Admitted"):
            changes["Admitted"] = {"status": "False", "reason": "NoReservation", "message": "No quota."}
        await self._patch(
            session, workload, {"admission": None, "conditions": _merge_conditions(workload, changes)}
        )

    async def _end(self, session: aiohttp.ClientSession, workload: Mapping[str, Any]) -> None:
        finished = {"status": "True", "reason": "Succeeded", "message": "Its time was over."}
        await self._patch(
            session, workload, {"conditions": _merge_conditions(workload, {"Finished": finished})}
        )

    async def _patch(
        self, session: aiohttp.ClientSession, workload: Mapping[str, Any], status: dict[str, Any]
    ) -> None:
        """Refused where the Workload has moved on: then its next event decides anew."""
        metadata = workload["metadata"]
        home = f"/apis/{names.KUEUE_API_VERSION}/namespaces/{metadata['namespace']}"
        path = f"{home}/workloads/{metadata['name']}/status"
        body = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "status": status}
        with suppress(aiohttp.ClientConnectionError):
            async with session.patch(path, json=body, headers=_PATCH) as answer:
                if answer.status not in (200, 404, 409):
                    answer.raise_for_status()


def has_reason(workload: Mapping[str, Any]) -> bool:
    """Whether Kueue itself has said why it waits. After an eviction the first words are the player's."""
    told, evicted = find_condition(workload, "QuotaReserved"), find_condition(workload, "Evicted")
    return text(told, "status") == "False" and text(told, "message") != text(evicted, "message")


def _is_decided(workload: Mapping[str, Any]) -> bool:
    """Whether Kueue has said something of it, or has nothing to say."""
    if mapping(workload, "spec").get("active") is False or is_true(workload, "Finished"):
        return True
    if is_true(workload, "QuotaReserved"):
        return not is_true(workload, "Evicted")
    return has_reason(workload)


def _merge_conditions(
    workload: Mapping[str, Any], changes: Mapping[str, Mapping[str, str]]
) -> list[dict[str, Any]]:
    """All conditions, with these in the place of what they were."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    kept = [each for each in workload["status"].get("conditions", []) if each["type"] not in changes]
    fresh = [{"type": kind, "lastTransitionTime": now, **change} for kind, change in changes.items()]
    return [*kept, *fresh]
