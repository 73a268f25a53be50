"""Acts as the jobs of a control plane without nodes: they arrive, they end after their time, and they give
their quota back when they are preempted. What they do follows at once from what a watch delivers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from muster.controller.kube.client import Client
from muster.controller.kube.connection import explicit
from muster.controller.kube.errors import Conflict
from muster.controller.kube.reflector import Reflector
from muster.controller.kube.resource import Key, Object
from muster.live.fields import find_condition, is_true, text
from muster.live.snapshot import Workload
from muster.replay import stored
from muster.replay.sources import WORKLOADS
from muster.replay.sources import Workload as Found
from tests.envtest import ControlPlane

_AGENT: Final = "muster-bench"
# A job that never starts would keep the measurement waiting: all jobs one after the other take less.
_PATIENCE: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob:
    """In seconds: `at` from the start, `seconds` while it runs, `grace` from its preemption until its quota
    is free.
    """

    name: str
    team: str
    at: float
    gpus: int
    seconds: float
    priority: str
    grace: float = 1.0


def act(
    plane: ControlPlane,
    jobs: Sequence[PlannedJob],
    to_workload: Callable[[PlannedJob, datetime], Workload],
) -> None:
    """Let the jobs happen; until all have ended."""
    connection = explicit(plane.url, authority=plane.certificate.read_bytes(), token=plane.token)

    async def run() -> None:
        async with Client(connection, field_manager=_AGENT, user_agent=_AGENT) as client:
            await _Actors(client, {job.name: job for job in jobs}, to_workload).run()

    asyncio.run(run())


@dataclass(slots=True)
class _Actors:
    """The sink of a watch. `latest`: the Workloads by name. `planned`: what a job does next, by its name and
    by what happened to it.
    """

    client: Client
    jobs: Mapping[str, PlannedJob]
    to_workload: Callable[[PlannedJob, datetime], Workload]
    latest: dict[str, Found] = field(default_factory=dict)
    planned: dict[tuple[str, str, str], asyncio.Task[None]] = field(default_factory=dict)
    left: set[str] = field(default_factory=set)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        watching = asyncio.create_task(Reflector(self.client, WORKLOADS.resource, self, watcher=self).run())
        begun = time.monotonic()
        arrivals = [asyncio.create_task(self._arrive(job, begun)) for job in self.jobs.values()]
        longest = _PATIENCE + 2 * sum(job.seconds for job in self.jobs.values())
        try:
            await asyncio.wait_for(self.over.wait(), longest)
            await asyncio.gather(*arrivals, *self.planned.values())
        finally:
            for task in (watching, *arrivals, *self.planned.values()):
                task.cancel()

    async def _arrive(self, job: PlannedJob, begun: float) -> None:
        await asyncio.sleep(begun + job.at - time.monotonic())
        workload = self.to_workload(job, datetime.now(UTC))
        body = stored.pending(workload)
        body["metadata"] = {"name": workload.name, "namespace": workload.namespace}
        await self.client.create(WORKLOADS.resource, body, namespace=workload.namespace)

    def put(self, obj: Object) -> None:
        assert isinstance(obj, Found)
        name, found = obj.metadata.name, {"status": obj.status}
        self.latest[name] = obj
        if name in self.left or not is_true(found, "Admitted"):
            return
        job = self.jobs[name]
        since = text(find_condition(found, "Admitted"), "lastTransitionTime")
        if is_true(found, "Evicted"):
            self._plan(("release", name, since), job.grace)
        else:
            self._plan(("end", name, since), job.seconds)

    def _plan(self, what: tuple[str, str, str], seconds: float) -> None:
        if what not in self.planned:
            self.planned[what] = asyncio.create_task(self._do(what, time.monotonic() + seconds))

    async def _do(self, what: tuple[str, str, str], at: float) -> None:
        await asyncio.sleep(at - time.monotonic())
        kind, name, since = what
        while True:
            obj = self.latest[name]
            found = {"status": obj.status}
            is_same = text(find_condition(found, "Admitted"), "lastTransitionTime") == since
            if not is_same or (kind == "end" and is_true(found, "Evicted")):
                return
            with suppress(Conflict):
                if kind == "end":
                    await self._patch(obj, {"Finished": ("True", "Succeeded", "Done")})
                    self.left.add(name)
                    if len(self.left) == len(self.jobs):
                        self.over.set()
                else:
                    await self._release(obj)
                return
            await asyncio.sleep(0.01)

    async def _release(self, obj: Found) -> None:
        """As every job integration does once its pods are gone."""
        message = text(find_condition({"status": obj.status}, "Evicted"), "message")
        changes = {
            "QuotaReserved": ("False", "Pending", message),
            "Admitted": ("False", "NoReservation", message),
        }
        await self._patch(obj, changes, admission=None)

    async def _patch(self, obj: Found, changes: Mapping[str, tuple[str, str, str]], **status: Any) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        kept = [each for each in obj.status["conditions"] if each["type"] not in changes]
        fresh = [
            {"type": kind, "status": value, "reason": reason, "message": message, "lastTransitionTime": now}
            for kind, (value, reason, message) in changes.items()
        ]
        body = {
            "metadata": {"resourceVersion": obj.metadata.resource_version},
            "status": {**status, "conditions": [*kept, *fresh]},
        }
        key = Key(obj.metadata.namespace, obj.metadata.name)
        await self.client.merge_patch(WORKLOADS.resource, key, body, subresource="status")

    def known(self, obj: Object) -> Object:
        return obj

    def replace(
        self, objects: list[Object], *, unreadable: Mapping[Key, str], version: str, new_history: bool
    ) -> None:
        for each in objects:
            self.put(each)

    def remove(self, obj: Object) -> None:
        raise AssertionError(f"nothing deletes {obj.key}")

    def mark_unreadable(self, key: Key, message: str) -> None:
        raise AssertionError(f"{key}: {message}")

    def event(self, kind: str) -> None: ...

    def heard(self) -> None: ...

    def relisted(self, reason: str, count: int) -> None: ...

    def opened(self) -> None: ...

    def failed(self, error: Exception) -> None: ...
