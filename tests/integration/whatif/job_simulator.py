"""Acts for the jobs on a temporary control plane: releases quota when Kueue evicts a Workload.

Here is when Kueue is done: every pending Workload has a reason, and nothing has changed for a while. On a
busy machine Kueue may get no CPU time for seconds, and is then as quiet as when it is done. A probe Workload
that it can admit at once shows that Kueue runs, and how long it takes to respond. The probe's queue has no
Cohort and uses a resource that no other Workload requests, so no other quota is affected.
"""

import asyncio
import json
import ssl
import time
from collections.abc import Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import aiohttp

from muster.live.fields import find_condition, is_true, mapping, parse_preemptor, text
from muster.model import names
from muster.render.manifest import Manifest
from tests.envtest import ControlPlane

_NAME: Final = "muster-what-if"
_RESOURCE: Final = "muster.dev/probe"
_QUEUE: Final = "default"
PATH: Final = f"/apis/{names.KUEUE_API_VERSION}/namespaces/{_NAME}/workloads"


def probe_objects() -> list[Manifest]:
    """What a probe needs."""
    kueue = {"apiVersion": names.KUEUE_API_VERSION}
    quota = {"name": _NAME, "resources": [{"name": _RESOURCE, "nominalQuota": "1000000"}]}
    queue = {
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": [_RESOURCE], "flavors": [quota]}],
    }
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAME}},
        {**kueue, "kind": "ResourceFlavor", "metadata": {"name": _NAME}, "spec": {}},
        {**kueue, "kind": "ClusterQueue", "metadata": {"name": _NAME}, "spec": queue},
        {
            **kueue,
            "kind": "LocalQueue",
            "metadata": {"name": _QUEUE, "namespace": _NAME},
            "spec": {"clusterQueue": _NAME},
        },
    ]


def is_probe(workload: Mapping[str, Any]) -> bool:
    return text(workload, "metadata", "namespace") == _NAME


@dataclass(slots=True)
class Probes:
    """The probes of one side, one at a time. Times are those of `time.monotonic`."""

    sent: float = 0.0
    admitted: float = 0.0
    number: int = 0

    @property
    def is_open(self) -> bool:
        """Whether a probe was sent and not admitted yet."""
        return self.sent > self.admitted

    def response_time(self, since: float) -> float | None:
        """Seconds that Kueue took to admit a probe sent after `since`; None without such a probe."""
        return self.admitted - self.sent if since < self.sent <= self.admitted else None

    def next(self) -> dict[str, Any]:
        """The next probe, as the Workload to create."""
        self.number, self.sent = self.number + 1, time.monotonic()
        requests = {"requests": {_RESOURCE: "1"}, "limits": {_RESOURCE: "1"}}
        pods = {
            "containers": [{"name": "probe", "image": "none", "resources": requests}],
            "restartPolicy": "Never",
        }
        return {
            "apiVersion": names.KUEUE_API_VERSION,
            "kind": "Workload",
            "metadata": {"name": f"probe-{self.number}", "namespace": _NAME},
            "spec": {
                "queueName": _QUEUE,
                "priority": 0,
                "active": True,
                "podSets": [{"name": "main", "count": 1, "template": {"metadata": {}, "spec": pods}}],
            },
        }

    def observe(self, workload: Mapping[str, Any]) -> None:
        is_last = text(workload, "metadata", "name") == f"probe-{self.number}"
        if is_last and self.is_open and is_true(workload, "QuotaReserved"):
            self.admitted = time.monotonic()


_WORKLOADS: Final = f"/apis/{names.KUEUE_API_VERSION}/workloads"
_PAGE: Final = 500
# Much longer than the pause between two scheduling cycles (milliseconds) and than the second for which Kueue
# collects Workloads to requeue.
_SETTLE_SECONDS: Final = 3.0
# Kueue never considers a Workload behind others in a strict queue. Then quiet alone shows that it is done.
_QUIET_SECONDS: Final = 8.0
# On a slow machine, quiet has to last for this many of Kueue's response times.
_SETTLE_ANSWERS, _QUIET_ANSWERS = 5, 15
_PROBE_SECONDS: Final = 1.0
_PATCH: Final = {"Content-Type": "application/merge-patch+json"}


@dataclass(slots=True)
class JobSimulator:
    """Watches every Workload of a temporary control plane until Kueue has decided.

    `equivalence`: uid -> everything that Kueue decides by; Workloads with equal values get equal decisions.
    `preempted`: uid -> (uid of the preemptor, reason) of the first preemption.
    """

    plane: ControlPlane
    equivalence: Mapping[str, Hashable] = field(default_factory=dict)
    workloads: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    preempted: dict[str, tuple[str, str]] = field(default_factory=dict)
    _probes: Probes = field(default_factory=Probes)
    _changed_at: float = 0.0
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(self, *, max_seconds: float) -> bool:
        """Return once Kueue is done (True) or after `max_seconds` (False)."""
        self._changed_at = time.monotonic()
        context = ssl.create_default_context(cafile=str(self.plane.certificate))
        headers = {"Authorization": f"Bearer {self.plane.token}"}
        connector = aiohttp.TCPConnector(ssl=context, limit=32)
        timeout = aiohttp.ClientTimeout(total=None, sock_read=max_seconds)
        async with aiohttp.ClientSession(
            self.plane.url, headers=headers, connector=connector, timeout=timeout
        ) as session:
            version = await self._list(session)
            watch = asyncio.create_task(self._follow(session, version))
            try:
                return await self._until_done(session, watch, end=time.monotonic() + max_seconds)
            finally:
                for task in (watch, *self._tasks):
                    task.cancel()
                await asyncio.gather(watch, *self._tasks, return_exceptions=True)

    async def _until_done(
        self, session: aiohttp.ClientSession, watch: asyncio.Task[None], *, end: float
    ) -> bool:
        while (now := time.monotonic()) < end:
            if watch.done():
                watch.result()
                raise AssertionError("the watch ended before the simulation")
            if self._is_done(now):
                return True
            if self._should_probe(now):
                await self._probe(session)
            await asyncio.sleep(0.2)
        return False

    @property
    def reasons(self) -> dict[Hashable, str]:
        """Equivalence key -> why those Workloads are pending."""
        return {
            self.equivalence.get(uid): text(find_condition(each, "QuotaReserved"), "message")
            for uid, each in self.workloads.items()
            if has_reason(each)
        }

    def _is_done(self, now: float) -> bool:
        if self._tasks:
            return False
        took, quiet = self._probes.response_time(self._changed_at), now - self._changed_at
        if took is None or quiet <= max(_SETTLE_SECONDS, _SETTLE_ANSWERS * took):
            return False
        return quiet > max(_QUIET_SECONDS, _QUIET_ANSWERS * took) or not self._undecided()

    def _should_probe(self, now: float) -> bool:
        is_quiet = now - self._changed_at > _PROBE_SECONDS and not self._tasks
        return is_quiet and not self._probes.is_open and self._probes.sent <= self._changed_at

    async def _probe(self, session: aiohttp.ClientSession) -> None:
        async with session.post(PATH, json=self._probes.next()) as answer:
            answer.raise_for_status()

    def _undecided(self) -> bool:
        """Whether a Workload has no decision yet. Of several equivalent ones Kueue only decides one (feature
        gate SchedulingEquivalenceHashing).
        """
        decided = {self.equivalence.get(uid) for uid, each in self.workloads.items() if has_reason(each)}
        return any(
            not _is_decided(each) and self.equivalence.get(uid) not in decided
            for uid, each in self.workloads.items()
        )

    async def _list(self, session: aiohttp.ClientSession) -> str:
        """Read all Workloads, page by page; returns the resource version from which to watch."""
        token = ""
        while True:
            async with session.get(_WORKLOADS, params={"limit": _PAGE, "continue": token}) as answer:
                answer.raise_for_status()
                page = await answer.json()
            for each in page["items"]:
                self._observe(session, each)
            token = page["metadata"].get("continue", "")
            if not token:
                return str(page["metadata"]["resourceVersion"])

    async def _follow(self, session: aiohttp.ClientSession, version: str) -> None:
        """Watch until cancelled. A watch that the server ends, as it does with a slow reader, starts from a
        new list.
        """
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
                    if not is_probe(event["object"]):
                        self._changed_at = time.monotonic()
                    self._observe(session, event["object"])

    def _observe(self, session: aiohttp.ClientSession, workload: Mapping[str, Any]) -> None:
        if is_probe(workload):
            self._probes.observe(workload)
            return
        uid = workload["metadata"]["uid"]
        self.workloads[uid] = workload
        by, how = parse_preemptor(workload)
        if how:
            self.preempted.setdefault(uid, (by, how))
        if is_true(workload, "QuotaReserved") and is_true(workload, "Evicted"):
            self._do(self._release(session, workload))

    def _do(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _release(self, session: aiohttp.ClientSession, workload: Mapping[str, Any]) -> None:
        """Release the quota, as every job integration of Kueue does once an evicted job's pods are gone."""
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

    async def _patch(
        self, session: aiohttp.ClientSession, workload: Mapping[str, Any], status: dict[str, Any]
    ) -> None:
        """Patch the status. A conflict is ignored: the Workload has changed, and its next event is handled
        anew.
        """
        metadata = workload["metadata"]
        home = f"/apis/{names.KUEUE_API_VERSION}/namespaces/{metadata['namespace']}"
        path = f"{home}/workloads/{metadata['name']}/status"
        body = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "status": status}
        with suppress(aiohttp.ClientConnectionError):
            async with session.patch(path, json=body, headers=_PATCH) as answer:
                if answer.status not in (200, 404, 409):
                    answer.raise_for_status()


def has_reason(workload: Mapping[str, Any]) -> bool:
    """Whether Kueue gave a reason for keeping it pending. Right after an eviction the message is the
    simulator's.
    """
    pending, evicted = find_condition(workload, "QuotaReserved"), find_condition(workload, "Evicted")
    return text(pending, "status") == "False" and text(pending, "message") != text(evicted, "message")


def _is_decided(workload: Mapping[str, Any]) -> bool:
    """Whether Kueue has decided about it, or has nothing to decide."""
    if mapping(workload, "spec").get("active") is False or is_true(workload, "Finished"):
        return True
    if is_true(workload, "QuotaReserved"):
        return not is_true(workload, "Evicted")
    return has_reason(workload)


def _merge_conditions(
    workload: Mapping[str, Any], changes: Mapping[str, Mapping[str, str]]
) -> list[dict[str, Any]]:
    """All conditions, with `changes` in place of the old ones of the same type."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    kept = [each for each in workload["status"].get("conditions", []) if each["type"] not in changes]
    fresh = [{"type": kind, "lastTransitionTime": now, **change} for kind, change in changes.items()]
    return [*kept, *fresh]
