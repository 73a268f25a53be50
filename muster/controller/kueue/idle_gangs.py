"""Running gangs whose GPUs do nothing: reported, and stopped where the `idle` of their queue says so.

What GPUs do is the word of dcgm-exporter alone, read from its pods in namespaces in which no tenant has one
(muster/model/programs.py). They are listed before and after their pages are read, because an address may be
a tenant's by then, and a page counts for pods on its own node. A gang is idle while every GPU that it was
admitted with is there once, under 1 % busy, and has used energy since the look before. Anything else, a page
that is missing, old or contradicts itself included, begins its time anew.

Times are those since this process has seen it: a wrong clock, a restart or an outage only delays. A stop is
the annotation by which a person stops a gang, so that a crash leaves nothing half done. One on a pool without
our check is deactivated by the same write, with the note by which we activate it again.
Sources, read 2026-11-29: https://github.com/NVIDIA/dcgm-exporter (etc/dcp-metrics-included.csv,
internal/pkg/rendermetrics).
"""

import asyncio
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import partial
from itertools import chain
from math import nan
from typing import Any, Final

import aiohttp
import msgspec
import structlog
from yarl import URL

from muster.controller.gangs.actions import EmitEvent
from muster.controller.gangs.demand import pod_amounts
from muster.controller.gangs.indexes import BY_REQUEST
from muster.controller.gangs.lease import format_time, parse_time
from muster.controller.gangs.metrics import GangMetrics
from muster.controller.gangs.objects import Pod, PodStatus
from muster.controller.gangs.owner import emit_event
from muster.controller.gangs.retry import RETRY_AT, truncate_seconds
from muster.controller.kube.client import Client, Selection
from muster.controller.kube.errors import KubeError, NotFound
from muster.controller.kube.parallel import side_by_side
from muster.controller.kube.resource import Key, Object, Resource
from muster.controller.kueue.backstop import asks_for_devices, has_quota
from muster.controller.kueue.identity import WORKLOADS
from muster.controller.kueue.idle_quota import claimed_requests
from muster.controller.kueue.indexes import BY_WORKLOAD
from muster.controller.kueue.objects import WORKLOAD, Workload
from muster.controller.kueue.podsets import admitted_counts, done_since
from muster.controller.kueue.slices import is_elastic
from muster.controller.runtime.clock import utc_now
from muster.controller.runtime.events import EventRecorder
from muster.controller.runtime.informer import Informer
from muster.model import waiting
from muster.model.gangpolicy import IdleAction, IdlePolicy
from muster.model.names import (
    GPU_RESOURCE,
    IDLE_ENDS_ANNOTATION,
    IDLE_SINCE_ANNOTATION,
    KEEP_UNTIL_ANNOTATION,
    MULTI_KUEUE_ORIGIN,
    STOP_ANNOTATION,
)
from muster.model.programs import EXPORTER_PORT, EXPORTERS
from muster.model.work import BY_KIND

PERIOD: Final = 60.0
"""Seconds between two looks; less where a queue has shorter times."""
BREAK: Final = 180.0
"""Seconds without a look after which a gang's time begins anew."""
_PATIENCE: Final = aiohttp.ClientTimeout(total=5)
_LARGEST: Final = 4 * 1024 * 1024
_AT_ONCE: Final = 32

ENERGY: Final = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
SHARES: Final = {"DCGM_FI_DEV_GPU_UTIL": 100.0, "DCGM_FI_PROF_GR_ENGINE_ACTIVE": 1.0}
"""How busy a GPU is, and what of it is all: either metric is enough."""
_IDLE_BELOW: Final = 0.01
_METRICS: Final = (ENERGY, *SHARES)
_LINE: Final = re.compile(r"(\w+)\{([^}]*)\}\s+(\S+)(?:\s+\d+)?\s*")
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')


class ExporterStatus(PodStatus, frozen=True):
    pod_ip: str = msgspec.field(default="", name="podIP")


class Exporter(Pod, frozen=True):
    """A pod of dcgm-exporter."""

    status: ExporterStatus = ExporterStatus()


_RANKS: Final = [each.namespace for each in EXPORTERS]
EXPORTER: Final = Resource("", "v1", "pods", "Pod", True, Exporter, annotation_prefixes=())

Gpu = tuple[str, str]
"""Its UUID, and the number of the MIG instance."""
Values = Mapping[str, float]
"""Of one GPU, by metric; NaN for what is said twice."""
Place = tuple[str, Key]
"""A pod, after its node."""
Line = tuple[str, Mapping[str, str], float]
"""A metric, its labels and its value."""


def read_page(page: str) -> list[Line]:
    """Raises ValueError for a page with a line that cannot be read."""
    return [_read_line(line) for line in page.split("\n") if line.startswith(_METRICS)]


def _read_line(line: str) -> Line:
    if (read := _LINE.fullmatch(line)) is None:
        raise ValueError(f"no line of metrics: {line[:200]}")
    labels = _LABEL.findall(read[2])
    # Where an exporter adds the labels of pods, a tenant's could have the name of one of these.
    if len({name for name, _ in labels}) < len(labels):
        raise ValueError(f"a label is there twice: {line[:200]}")
    return read[1], dict(labels), float(read[3])


class Reading(StrEnum):
    """What the GPUs of a gang do."""

    BUSY = "busy"
    IDLE = "idle"
    UNKNOWN = "unknown"


def read_gang(gpus: Mapping[Gpu, Values], before: Mapping[Gpu, Values], *, admitted: int) -> Reading:
    """`before`: its GPUs at the look before. `admitted`: how many it has."""
    if not admitted or len(gpus) != admitted:
        return Reading.UNKNOWN
    is_idle = True
    for gpu, values in gpus.items():
        shares = [values[metric] / whole for metric, whole in SHARES.items() if metric in values]
        has_moved = values.get(ENERGY, nan) > before.get(gpu, {}).get(ENERGY, nan)
        if not shares or not has_moved or not all(0 <= share <= 1 for share in shares):
            return Reading.UNKNOWN
        is_idle &= all(share < _IDLE_BELOW for share in shares)
    return Reading.IDLE if is_idle else Reading.BUSY


@dataclass(frozen=True, slots=True)
class Moment:
    """`steady`: seconds of a clock that nothing sets. `at`: as a person reads it."""

    steady: float
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Idleness:
    """Of a gang that was idle at every look from `since` to `seen`. `noticed`: when it got its notice."""

    since: Moment
    seen: float
    noticed: Moment | None = None

    def ends(self, rule: IdlePolicy, keep_until: datetime | None) -> datetime | None:
        """When the gang is stopped; None for never. `keep_until`: the word of its owner."""
        if self.noticed is None or rule.action is IdleAction.REPORT:
            return None
        due = self.noticed.at + rule.notice
        return truncate_seconds(min(max(due, keep_until or due), due + rule.keep))


def judge(
    before: Idleness | None, reading: Reading, rule: IdlePolicy, *, now: Moment, keep_until: datetime | None
) -> tuple[Idleness | None, bool]:
    """What is known after a look, and whether the gang is stopped now. Pure."""
    if reading is not Reading.IDLE:
        return None, False
    if before is None or now.steady - before.seen > BREAK:
        return Idleness(since=now, seen=now.steady), False
    idle = replace(before, seen=now.steady)
    if idle.noticed is None:
        is_over = now.steady - idle.since.steady >= rule.after.total_seconds()
        return (replace(idle, noticed=now) if is_over else idle), False
    # By the steady clock alone; only the owner's word is a time of day.
    late = now.steady - idle.noticed.steady - rule.notice.total_seconds()
    is_kept = keep_until is not None and keep_until > now.at and late < rule.keep.total_seconds()
    return idle, rule.action is IdleAction.SUSPEND and late >= 0 and not is_kept


class IdleGangs:
    """Looks on the leader alone. `rules`: by ClusterQueue. `has_check`: whether ours is on a Workload."""

    def __init__(
        self,
        client: Client,
        *,
        workloads: Informer[Workload],
        pods: Informer[Pod],
        rules: Callable[[], Mapping[str, IdlePolicy]],
        has_check: Callable[[Workload], bool],
        events: EventRecorder,
        metrics: GangMetrics,
        leads: Callable[[], bool],
        now: Callable[[], Moment] = lambda: Moment(time.monotonic(), utc_now()),
    ) -> None:
        self._client, self._workloads, self._pods = client, workloads, pods
        self._rules, self._has_check, self._events, self._metrics = rules, has_check, events, metrics
        self._leads, self._now = leads, now
        self._idle: dict[str, Idleness] = {}
        self._gpus: dict[str, Mapping[Gpu, Values]] = {}
        self._known: Mapping[str, IdlePolicy] = {}
        self._changed = asyncio.Event()
        self._log = structlog.get_logger("idle")

    def hear(self) -> None:
        """Look at once where the rules are others than at the last look: none are there before the policy."""
        if self._rules() != self._known:
            self._changed.set()

    async def run(self) -> None:
        """Look forever; a failure must not end the process."""
        headers = {"Accept-Encoding": "identity"}
        async with aiohttp.ClientSession(timeout=_PATIENCE, headers=headers) as session:
            while True:
                self._changed.clear()
                self._known = self._rules()
                try:
                    await self.look(partial(fetch_page, session))
                except Exception:
                    self._log.exception("did not look for idle gangs")
                times = (min(rule.after, rule.notice).total_seconds() / 5 for rule in self._known.values())
                with suppress(TimeoutError):
                    async with asyncio.timeout(max(1.0, min((PERIOD, *times)))):
                        await self._changed.wait()

    async def look(self, fetch: Callable[[str], Awaitable[str]]) -> None:
        """`fetch`: the page of the exporter at an address."""
        if not self._leads():
            self._idle.clear()
            return
        rules = self._rules()
        gangs = [
            (each, rules.get(each.status.admission.cluster_queue if each.status.admission else ""))
            for each in self._workloads.store
            if has_quota(each) and each.status.holds("Admitted") and each.spec.active
            if any(asks_for_devices(pod_set.template.spec) for pod_set in each.spec.pod_sets)
            if not (
                MULTI_KUEUE_ORIGIN in each.metadata.labels or waiting.is_stopped(each.metadata.annotations)
            )
        ]
        pods = {workload.metadata.uid: list(self._pods_of(workload)) for workload, rule in gangs if rule}
        pages = await self._read({pod.spec.node_name for of_gang in pods.values() for pod in of_gang}, fetch)
        idle, gpus, count = dict[str, Idleness](), dict[str, Mapping[Gpu, Values]](), Counter[Reading]()
        for workload, rule in gangs:
            uid = workload.metadata.uid
            if rule is None:
                await self._write(workload, None, None)
                continue
            places = ((pod.spec.node_name, pod.key) for pod in pods[uid])
            gpus[uid] = {gpu: values for place in places for gpu, values in pages.get(place, {}).items()}
            reading = read_gang(gpus[uid], self._gpus.get(uid, {}), admitted=_gpus_of(workload))
            count[reading] += 1
            if found := await self._judge(workload, rule, reading):
                idle[uid] = found
        self._idle, self._gpus = idle, gpus
        for reading in Reading:
            self._metrics.gpu_use.labels(reading).set(count[reading])

    async def _judge(self, workload: Workload, rule: IdlePolicy, reading: Reading) -> Idleness | None:
        if is_elastic(workload):  # Stopped, its pods may run on (known issue evicted-slices).
            rule = replace(rule, action=IdleAction.REPORT)
        before, keep_until = self._idle.get(workload.metadata.uid), None
        try:
            if before and before.noticed and rule.action is IdleAction.SUSPEND:
                keep_until = await self._keep_until(workload)
        except KubeError as error:
            self._log.warning("an idle gang stays", workload=str(workload.key), error=str(error))
            reading = Reading.UNKNOWN
        found, stops = judge(before, reading, rule, now=self._now(), keep_until=keep_until)
        ends = found.ends(rule, keep_until) if found else None
        is_written = await self._write(workload, found, ends, stops=stops)
        if found and not is_written:  # A notice counts from when it can be read.
            return replace(found, noticed=before.noticed if before else None)
        return None if stops else found

    def _pods_of(self, workload: Workload) -> Iterator[Pod]:
        found = list(self._pods.store.by_index(BY_WORKLOAD, workload.key))
        for request in claimed_requests(workload, self._workloads.get):
            found += self._pods.store.by_index(BY_REQUEST, request)
        yield from {pod.key: pod for pod in found}.values()

    # The exporters

    async def _read(
        self, nodes: set[str], fetch: Callable[[str], Awaitable[str]]
    ) -> Mapping[Place, Mapping[Gpu, Values]]:
        pages: list[tuple[Exporter, list[Line]]] = []
        found: dict[Place, dict[Gpu, dict[str, float]]] = {}
        if not nodes:
            return found

        async def read(exporter: Exporter) -> None:
            try:
                pages.append((exporter, read_page(await fetch(exporter.status.pod_ip))))
            except (aiohttp.ClientError, OSError, ValueError) as error:
                self._log.warning("no page of an exporter", pod=str(exporter.key), error=str(error))

        asked = (each for each in await self._exporters() if each.spec.node_name in nodes)
        await side_by_side(map(read, asked), at_once=_AT_ONCE)
        there = {(each.metadata.uid, each.status.pod_ip) for each in await self._exporters()}
        known = [(each, lines) for each, lines in pages if (each.metadata.uid, each.status.pod_ip) in there]
        known.sort(key=lambda page: _RANKS.index(page[0].metadata.namespace))
        whose = dict[str, str]()
        for exporter, lines in known:
            namespace = exporter.metadata.namespace
            if whose.setdefault(exporter.spec.node_name, namespace) != namespace:
                continue
            for metric, labels, amount in lines:
                pod = Key(labels.get("namespace", ""), labels.get("pod", ""))
                gpu = labels.get("UUID", ""), labels.get("GPU_I_ID", "")
                values = found.setdefault((exporter.spec.node_name, pod), {}).setdefault(gpu, {})
                values[metric] = nan if metric in values else amount
        return found

    async def _exporters(self) -> list[Exporter]:
        listed = [
            await self._client.list(EXPORTER, Selection(namespace=each.namespace, labels=each.label))
            for each in EXPORTERS
        ]
        return [
            each
            for each in chain.from_iterable(found.items for found in listed)
            if each.status.pod_ip and not each.status.has_ended and each.metadata.deletion_timestamp is None
            if any(owner.controller and owner.kind == "DaemonSet" for owner in each.metadata.owner_references)
        ]

    # The gang and its owner

    async def _keep_until(self, workload: Workload) -> datetime | None:
        """The later word of its job and of its Workload."""
        notes = [workload.metadata.annotations]
        for owner in workload.metadata.owner_references:
            kind = BY_KIND.get(owner.kind)
            if owner.controller and kind and owner.api_version.partition("/")[0] == kind.group:
                job = Resource(kind.group, kind.version, kind.resource, kind.kind, True, Object)
                with suppress(NotFound):
                    found = await self._client.get(job, Key(workload.metadata.namespace, owner.name))
                    notes += [found.metadata.annotations] if found.metadata.uid == owner.uid else []
        times = (parse_time(each.get(KEEP_UNTIL_ANNOTATION, "")) for each in notes)
        return max(filter(None, times), default=None)

    async def _write(
        self, workload: Workload, idle: Idleness | None, ends: datetime | None, *, stops: bool = False
    ) -> bool:
        """The notice as it is after this look, and the stop. An Event says what is new of it. Returns whether
        the Workload has it now.
        """
        meta, since = workload.metadata, truncate_seconds(idle.since.at) if idle and idle.noticed else None
        wanted = {
            IDLE_SINCE_ANNOTATION: format_time(since) if since else None,
            IDLE_ENDS_ANNOTATION: format_time(ends) if ends and not stops else None,
            **({STOP_ANNOTATION: "idle"} if stops else {}),
        }
        changed = {name: value for name, value in wanted.items() if meta.annotations.get(name) != value}
        if not changed:
            return True
        version = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        body: dict[str, Any] = {"metadata": {**version, "annotations": changed}}
        if stops and not self._has_check(workload):
            changed[RETRY_AT] = format_time(self._now().at)
            body["spec"] = {"active": False}
        try:
            await self._client.merge_patch(WORKLOAD, workload.key, body)
        except KubeError as error:  # The next look sees it as it is.
            self._log.info("not written", workload=str(workload.key), error=str(error))
            return False
        self._metrics.stopped_idle.inc(stops)
        if since is None:
            event = EmitEvent(kind="Normal", reason="GangNotIdle", message=waiting.not_idle())
        else:
            message = waiting.idle(since, None if stops else ends) + ("; it is stopped" if stops else "")
            event = EmitEvent(kind="Warning", reason="GangIdle", message=message)
        emit_event(self._events, WORKLOADS.of(workload), event)
        return True


async def fetch_page(session: aiohttp.ClientSession, address: str) -> str:
    """Raises ValueError for an answer that is no page."""
    url = URL.build(scheme="http", host=address, port=EXPORTER_PORT, path="/metrics")
    async with session.get(url, allow_redirects=False) as answer:
        page = bytearray()
        async for part in answer.content.iter_any():
            page += part
            if len(page) > _LARGEST:
                raise ValueError(f"it is larger than {_LARGEST} bytes")
        if answer.status != 200:
            raise ValueError(f"it answered {answer.status}")
        return page.decode()


def _gpus_of(workload: Workload) -> int:
    """How many its pods have by its admission; 0 where that cannot be read."""
    counts, done = admitted_counts(workload), done_since(workload)
    try:
        return sum(
            (counts.get(each.name, 0) - done.get(each.name, 0))
            * int(pod_amounts(each.template.spec).get(GPU_RESOURCE, 0))
            for each in workload.spec.pod_sets
        )
    except ValueError:
        return 0
