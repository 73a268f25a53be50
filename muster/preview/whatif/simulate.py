"""Simulates one side on a control plane of its own: from an empty etcd to Kueue's decisions."""

import asyncio
import ssl
import tempfile
import time
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp

from muster.live.conditions import find_condition, is_true
from muster.live.fields import items, text, texts
from muster.live.snapshot import State, Workload
from muster.live.snapshot.kueue import parse_amount
from muster.local import envtest
from muster.local.envtest import ControlPlane, Programs
from muster.local.envtest.kueue import define
from muster.model import names
from muster.model.plural import many
from muster.preview.whatif import etcd, fixtures, probe, rights
from muster.preview.whatif.job_simulator import JobSimulator, has_reason
from muster.preview.whatif.outcome import Decision, Outcome, Progress, WorkloadState, to_state
from muster.preview.whatif.readiness import expected_usage, wait_for_usage_sync
from muster.preview.whatif.scenario import Scenario, WhatIfError
from muster.render.manifest import Manifest
from muster.replay import stored

_AT_ONCE: Final = 32
_SECONDS: Final = aiohttp.ClientTimeout(total=60)


@dataclass(frozen=True, slots=True)
class TemporaryCluster:
    """The real Kueue on a control plane of its own, for each side. Durations are compressed there."""

    programs: Programs

    def is_parallel(self, scenario: Scenario) -> bool:
        """Time is compressed, so every second that Kueue takes counts as many: one side at a time has the
        machine.
        """
        return scenario.clock is None

    def simulate(
        self,
        batches: Sequence[fixtures.ManifestBatch],
        config: Mapping[str, Any],
        scenario: Scenario,
        *,
        progress: Progress,
    ) -> Outcome:
        """What Kueue with this configuration decides about the snapshot's Workloads, with the queues in
        `batches`.
        """
        with tempfile.TemporaryDirectory(prefix="muster-what-if-", ignore_cleanup_errors=True) as folder:
            return _simulate(
                batches, config, scenario, folder=Path(folder), programs=self.programs, progress=progress
            )


def _simulate(
    batches: Sequence[fixtures.ManifestBatch],
    config: Mapping[str, Any],
    scenario: Scenario,
    *,
    folder: Path,
    programs: Programs,
    progress: Progress,
) -> Outcome:
    started = time.monotonic()
    batches = [*batches, *probe.manifest_batches()]
    with envtest.control_plane(folder, programs) as plane:
        define(plane, programs)
        progress("queues")
        asyncio.run(_load(plane, batches, scenario.holding))
        progress(many(len(scenario.snapshot.workloads), "Workload"))
        rights.grant(plane, usage_counts="admissionFairSharing" in config)
        with envtest.kueue(plane, programs, config=config, user=rights.USER):
            if wait_for_usage_sync(plane, expected_usage(batches, scenario.holding)):
                rights.stop_counting(plane)
            asyncio.run(_put(plane, scenario.waiting))
            simulator = JobSimulator(
                plane,
                clock=scenario.clock,
                ran={stored.uid(each.namespace, each.name): scenario.ran(each) for each in scenario.holding},
                equivalence=scenario.equivalence_keys(),
                progress=progress,
            )
            is_settled = asyncio.run(simulator.run(max_seconds=scenario.max_seconds))
    return _outcome(scenario, simulator, is_settled=is_settled, seconds=time.monotonic() - started)


async def _load(
    plane: ControlPlane, batches: Iterable[fixtures.ManifestBatch], workloads: Iterable[Workload]
) -> None:
    context = ssl.create_default_context(cafile=str(plane.certificate))
    connector = aiohttp.TCPConnector(ssl=context, limit=_AT_ONCE)
    headers = {"Authorization": f"Bearer {plane.token}"}
    async with aiohttp.ClientSession(
        plane.url, connector=connector, headers=headers, timeout=_SECONDS
    ) as session:
        for batch in batches:
            await asyncio.gather(*(_create(session, path, manifest) for path, manifest in batch))
    await _put(plane, workloads)


async def _put(plane: ControlPlane, workloads: Iterable[Workload]) -> None:
    await etcd.put(plane.etcd, ((stored.key(each), stored.value(each)) for each in workloads))


async def _create(session: aiohttp.ClientSession, path: str, manifest: Manifest) -> None:
    async with session.post(path, params={"fieldValidation": "Strict"}, json=manifest) as answer:
        if answer.status not in (201, 409):  # namespace `default` exists already
            reason = (await answer.json()).get("message", answer.reason)
            raise WhatIfError(
                f"The API server refused {manifest['kind']} {manifest['metadata']['name']}: {reason}"
            )


def _outcome(scenario: Scenario, simulator: JobSimulator, *, is_settled: bool, seconds: float) -> Outcome:
    known = {stored.uid(each.namespace, each.name): each for each in scenario.snapshot.workloads}
    reasons = simulator.reasons
    decisions = {
        uid: _decision(simulator, scenario, uid, known, reasons)
        for uid in known
        if uid in simulator.workloads
    }
    return Outcome(
        decisions={each.label: each for each in decisions.values()},
        used=_used(simulator),
        is_settled=is_settled,
        seconds=seconds,
    )


def _decision(
    simulator: JobSimulator,
    scenario: Scenario,
    uid: str,
    known: dict[str, Workload],
    reasons: Mapping[Hashable, str],
) -> Decision:
    workload, before = simulator.workloads[uid], known[uid]
    by, how = simulator.preempted.get(uid, ("", ""))
    found = to_state(workload, was_running=before.is_holding, was_preempted=bool(how))
    waited = None
    if scenario.clock is not None and uid in simulator.admitted and before.state is State.PENDING:
        waited = simulator.admitted[uid] * scenario.clock.compression
    return Decision(
        namespace=before.namespace,
        name=before.name,
        state=found,
        why=_why(simulator, uid, reasons) if found is WorkloadState.PENDING else "",
        preemptor=f"{known[by].namespace}/{known[by].name}" if by in known else "",
        how=how,
        waited=waited,
    )


def _why(simulator: JobSimulator, uid: str, reasons: Mapping[Hashable, str]) -> str:
    """Kueue's reason, or its reason for an equivalent Workload."""
    workload = simulator.workloads[uid]
    own = text(find_condition(workload, "QuotaReserved"), "message")
    return own if has_reason(workload) else reasons.get(simulator.equivalence.get(uid), own)


def _used(simulator: JobSimulator) -> dict[tuple[str, str], dict[str, int]]:
    """GPUs and TPU chips of all Workloads that hold quota at the end, by LocalQueue and flavor."""
    used: dict[tuple[str, str], dict[str, int]] = {}
    for workload in simulator.workloads.values():
        if is_true(workload, "Finished"):
            continue
        queue = text(workload, "metadata", "namespace"), text(workload, "spec", "queueName")
        for pods in items(workload, "status", "admission", "podSetAssignments"):
            for device in names.DEVICE_RESOURCES:
                if flavor := texts(pods, "flavors").get(device):
                    usage = texts(pods, "resourceUsage").get(device, "0")
                    line = used.setdefault(queue, {})
                    line[flavor] = line.get(flavor, 0) + parse_amount(device, usage)
    return used
