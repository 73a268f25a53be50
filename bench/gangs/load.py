"""Puts gangs into their queues and plays their jobs: an admitted one runs for its time and is finished, an
evicted one stops at once and gives its quota back.

What is seen here decides only when a trial is over, never a figure.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

from bench.gangs.shapes import Gang
from muster.local.simulated_cloud.api import Api, ApiError, Raw, Resource
from muster.model import names

Progress = Callable[[int], None]
WORKLOADS: Final = Resource("workloads", f"/apis/{names.KUEUE_API_VERSION}")
_AT_ONCE: Final = 8
_APPLY: Final = "application/apply-patch+yaml"


class Load:
    """The gangs of one trial."""

    def __init__(self, api: Api, gangs: Sequence[Gang], *, on_progress: Progress) -> None:
        self._api, self._on_progress = api, on_progress
        self._gangs = {gang.key: gang for gang in gangs}
        self._waiting = {gang.key for gang in gangs if gang.counts}
        self._seen: dict[tuple[str, str], asyncio.Task[None] | None] = {}
        self._over = asyncio.Event()
        self._jobs: set[asyncio.Task[None]] = set()

    async def submit(self, *, rate: float | None) -> None:
        """Each when its time has come, and not more than `rate` a second; in order either way."""
        begun = time.monotonic()
        gate = asyncio.Semaphore(_AT_ONCE)
        async with asyncio.TaskGroup() as group:
            for number, gang in enumerate(self._gangs.values()):
                at = begun + gang.after + (number / rate if rate else 0.0)
                await asyncio.sleep(max(0.0, at - time.monotonic()))
                await gate.acquire()
                group.create_task(self._create(gang, gate))

    async def _create(self, gang: Gang, gate: asyncio.Semaphore) -> None:
        try:
            await self._api.call("POST", WORKLOADS.path(namespace=gang.namespace), gang.manifest())
        finally:
            gate.release()

    async def over(self) -> None:
        """Until every gang that counts is admitted, and has run where it runs."""
        await self._over.wait()

    async def follow(self) -> None:
        """Watches until cancelled."""
        _, version = await self._api.list(WORKLOADS)
        while True:
            async for kind, item in self._api.watch(WORKLOADS, version):
                meta = item["metadata"]
                version = str(meta.get("resourceVersion") or version)
                if kind in ("ADDED", "MODIFIED"):
                    self._look((meta.get("namespace", ""), meta.get("name", "")), item)

    def _look(self, key: tuple[str, str], item: Raw) -> None:
        gang = self._gangs.get(key)
        if gang is None:
            return
        if _holds(item, "Finished"):
            self._done(key)  # also where it ended while it was being preempted
            return
        if _holds(item, "Evicted") and _holds(item, "QuotaReserved"):
            self._start(self._stop(gang, item))
        if not _holds(item, "Admitted") or _holds(item, "Evicted"):
            job = self._seen.pop(key, None)
            if job is not None:
                job.cancel()  # preempted: it runs its whole time again
        elif key not in self._seen:
            self._seen[key] = None if gang.runs is None else self._start(self._run(gang, gang.runs))
            if gang.runs is None:
                self._done(key)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        job = asyncio.create_task(work)
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)
        return job

    async def _stop(self, gang: Gang, item: Raw) -> None:
        """What Kueue does for a job whose pods are gone (pkg/controller/jobframework/reconciler.go, "handle
        eviction"). Nothing does it for a Workload without a job.
        """
        path = WORKLOADS.path(gang.name, namespace=gang.namespace, sub="status")
        with suppress(ApiError):  # it has changed meanwhile, and will be seen again
            await self._api.call("PUT", path, _stopped(item))

    async def _run(self, gang: Gang, seconds: float) -> None:
        await asyncio.sleep(seconds)
        path = WORKLOADS.path(gang.name, namespace=gang.namespace, sub="status")
        await self._api.call(
            "PATCH",
            path,
            _finished(gang),
            content_type=_APPLY,
            params={"fieldManager": "job", "force": "true"},
        )

    def _done(self, key: tuple[str, str]) -> None:
        self._waiting.discard(key)
        self._on_progress(len(self._waiting))
        if not self._waiting:
            self._over.set()


def _holds(item: Raw, kind: str) -> bool:
    conditions: Iterable[Any] = (item.get("status") or {}).get("conditions") or ()
    return any((each["type"], each["status"]) == (kind, "True") for each in conditions)


def _stopped(item: Raw) -> dict[str, Any]:
    """Without its quota; Kueue lets it queue again when the pause after its eviction is over."""
    status = {key: value for key, value in item["status"].items() if key != "admission"}
    evicted = next(each for each in status["conditions"] if each["type"] == "Evicted")
    at_once = "True" if evicted["reason"] == "Preempted" else "False"
    changed = {"QuotaReserved": "False", "Requeued": at_once}
    changed |= {"Admitted": "False"} if _holds(item, "Admitted") else {}
    kept = [each for each in status["conditions"] if each["type"] not in changed]
    new = [
        _condition(kind, value, "Pending" if kind == "QuotaReserved" else evicted["reason"])
        for kind, value in changed.items()
    ]
    return {**item, "status": {**status, "conditions": [*kept, *new]}}


def _finished(gang: Gang) -> dict[str, Any]:
    return {
        "apiVersion": names.KUEUE_API_VERSION,
        "kind": "Workload",
        "metadata": {"name": gang.name, "namespace": gang.namespace},
        "status": {"conditions": [_condition("Finished", "True", "Succeeded")]},
    }


def _condition(kind: str, status: str, reason: str) -> dict[str, Any]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": "played by the bench",
        "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
