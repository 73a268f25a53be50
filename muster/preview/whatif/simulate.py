"""One side of the question: from an empty store to what Kueue decided."""

import asyncio
import ssl
import time
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp

from muster.live.errors import PreviewError
from muster.live.fields import items, text, texts
from muster.live.snapshot import Snapshot, State, Workload
from muster.live.snapshot.kueue import parse_amount
from muster.local import envtest
from muster.local.envtest import ControlPlane, Programs
from muster.local.envtest.kueue import define
from muster.model import names
from muster.preview.whatif import etcd, fixtures, probe, rights, stored
from muster.preview.whatif.job_simulator import Clock, JobSimulator, Progress, has_reason
from muster.preview.whatif.outcome import Decision, Outcome, WorkloadState, find_condition, is_true, to_state
from muster.preview.whatif.readiness import expected_usage, wait_for_usage_sync
from muster.render.manifest import Manifest

_AT_ONCE: Final = 32
_SECONDS: Final = aiohttp.ClientTimeout(total=60)


class WhatIfError(PreviewError):
    """The question cannot be asked: why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationInput:
    """`most`: seconds after which a side is told as far as it came. `clock` None: jobs run for ever."""

    snapshot: Snapshot
    clock: Clock | None = None
    most: float = 600.0


@dataclass(frozen=True, slots=True)
class Workspace:
    """Where one side is played: an empty folder, the programs, and who is told how far it is."""

    folder: Path
    programs: Programs
    progress: Progress


def simulate(
    acts: Sequence[fixtures.ManifestBatch],
    config: Mapping[str, Any],
    question: SimulationInput,
    *,
    room: Workspace,
) -> Outcome:
    """What Kueue, configured like this, decides about the snapshot's Workloads with the queues of these
    acts.
    """
    begun = time.monotonic()
    acts = [*acts, *probe.manifest_batches()]
    holding = [each for each in question.snapshot.workloads if each.is_holding]
    with envtest.control_plane(room.folder, room.programs) as plane:
        define(plane, room.programs)
        room.progress("queues")
        asyncio.run(_load(plane, acts, holding))
        room.progress(f"{len(question.snapshot.workloads)} Workloads")
        rights.grant(plane, usage_counts="admissionFairSharing" in config)
        with envtest.kueue(plane, room.programs, config=config, user=rights.USER):
            if wait_for_usage_sync(plane, expected_usage(acts, holding)):
                rights.stop_counting(plane)
            waiting = [each for each in question.snapshot.workloads if not each.is_holding]
            # In the order in which Kueue would look at them.
            asyncio.run(_put(plane, sorted(waiting, key=lambda each: (-each.priority, each.created))))
            player = JobSimulator(
                plane,
                clock=question.clock,
                ran=_run_seconds(question.snapshot),
                shapes=_equivalence_keys(question.snapshot),
                progress=room.progress,
            )
            is_settled = asyncio.run(player.play(most=question.most))
    return _outcome(question, player, is_settled=is_settled, seconds=time.monotonic() - begun)


async def _load(
    plane: ControlPlane, acts: Iterable[fixtures.ManifestBatch], workloads: Iterable[Workload]
) -> None:
    context = ssl.create_default_context(cafile=str(plane.certificate))
    connector = aiohttp.TCPConnector(ssl=context, limit=_AT_ONCE)
    headers = {"Authorization": f"Bearer {plane.token}"}
    async with aiohttp.ClientSession(
        plane.url, connector=connector, headers=headers, timeout=_SECONDS
    ) as session:
        for act in acts:
            await asyncio.gather(*(_create(session, path, manifest) for path, manifest in act))
    await _put(plane, workloads)


async def _put(plane: ControlPlane, workloads: Iterable[Workload]) -> None:
    await etcd.put(plane.etcd, ((stored.key(each), stored.value(each)) for each in workloads))


async def _create(session: aiohttp.ClientSession, path: str, manifest: Manifest) -> None:
    async with session.post(path, params={"fieldValidation": "Strict"}, json=manifest) as answer:
        if answer.status not in (201, 409):  # `default` is there already
            said = (await answer.json()).get("message", answer.reason)
            raise WhatIfError(f"{manifest['kind']} {manifest['metadata']['name']} is refused: {said}")


def _run_seconds(snapshot: Snapshot) -> dict[str, float]:
    """Seconds that each Workload with quota has run, when the snapshot was taken."""
    return {
        stored.uid(each.namespace, each.name): _age(snapshot, each)
        for each in snapshot.workloads
        if each.is_holding
    }


def _equivalence_keys(snapshot: Snapshot) -> dict[str, Hashable]:
    """What Kueue decides by, of each Workload: two that are alike wait for the same reason."""
    return {
        stored.uid(each.namespace, each.name): (
            each.namespace,
            each.queue,
            each.priority,
            str([(pods.count, pods.min_count, pods.requests, pods.node_selector) for pods in each.pod_sets]),
            str([(pods.tolerations, pods.terms) for pods in each.pod_sets]),
        )
        for each in snapshot.workloads
    }


def _age(snapshot: Snapshot, workload: Workload) -> float:
    since = workload.since("Admitted") or snapshot.taken
    return max((snapshot.taken - since).total_seconds(), 0.0)


def _outcome(question: SimulationInput, player: JobSimulator, *, is_settled: bool, seconds: float) -> Outcome:
    known = {stored.uid(each.namespace, each.name): each for each in question.snapshot.workloads}
    reasons = player.reasons
    decisions = {
        uid: _decision(player, question, uid, known, reasons) for uid in known if uid in player.workloads
    }
    return Outcome(
        decisions={each.label: each for each in decisions.values()},
        used=_used(player),
        is_settled=is_settled,
        seconds=seconds,
    )


def _decision(
    player: JobSimulator,
    question: SimulationInput,
    uid: str,
    known: dict[str, Workload],
    reasons: Mapping[Hashable, str],
) -> Decision:
    workload, before = player.workloads[uid], known[uid]
    by, how = player.preempted.get(uid, ("", ""))
    found = to_state(workload, was_running=before.is_holding, was_preempted=bool(how))
    waited = None
    if question.clock is not None and uid in player.admitted and before.state is State.PENDING:
        waited = player.admitted[uid] * question.clock.compression
    return Decision(
        namespace=before.namespace,
        name=before.name,
        fate=found,
        why=_why(player, uid, reasons) if found is WorkloadState.PENDING else "",
        preemptor=f"{known[by].namespace}/{known[by].name}" if by in known else "",
        how=how,
        waited=waited,
    )


def _why(player: JobSimulator, uid: str, reasons: Mapping[Hashable, str]) -> str:
    """Kueue's reason, or its reason for one that is just like this."""
    workload = player.workloads[uid]
    own = text(find_condition(workload, "QuotaReserved"), "message")
    return own if has_reason(workload) else reasons.get(player.shapes.get(uid), own)


def _used(player: JobSimulator) -> dict[tuple[str, str], dict[str, int]]:
    """GPUs of all that hold quota in the end, by LocalQueue and flavor."""
    used: dict[tuple[str, str], dict[str, int]] = {}
    for workload in player.workloads.values():
        if is_true(workload, "Finished"):
            continue
        queue = text(workload, "metadata", "namespace"), text(workload, "spec", "queueName")
        for pods in items(workload, "status", "admission", "podSetAssignments"):
            flavor = texts(pods, "flavors").get(names.GPU_RESOURCE)
            if flavor:
                usage = texts(pods, "resourceUsage").get(names.GPU_RESOURCE, "0")
                line = used.setdefault(queue, {})
                line[flavor] = line.get(flavor, 0) + parse_amount(names.GPU_RESOURCE, usage)
    return used
