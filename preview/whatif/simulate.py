"""One side of the question: from an empty store to what Kueue decided."""

import asyncio
import ssl
import tempfile
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp

from localplane import bare
from localplane.bare import ControlPlane, Programs
from localplane.bare.kueue import define
from model import names
from model.render.manifest import Manifest
from model.stack import Stack
from preview.errors import PreviewError
from preview.fields import items, number, text, texts
from preview.snapshot import Snapshot, State, Workload
from preview.snapshot.kueue import amount
from preview.whatif import etcd, stage, stored
from preview.whatif.outcome import Decision, Fate, Outcome, condition, fate
from preview.whatif.player import Clock, Player

Progress = Callable[[str], None]
_AT_ONCE: Final = 32
_COUNTED_SECONDS: Final = 120.0
_PAUSE: Final = 0.2
_SECONDS: Final = aiohttp.ClientTimeout(total=60)


class WhatIfError(PreviewError):
    """The question cannot be asked: why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """`most`: seconds after which a side is told as far as it came. `clock` None: jobs run for ever."""

    snapshot: Snapshot
    clock: Clock | None = None
    most: float = 600.0


def simulate(stack: Stack, question: Question, programs: Programs, progress: Progress) -> Outcome:
    """What Kueue decides about the snapshot's Workloads with this stack's queues."""
    begun = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="muster-what-if-") as folder,
        bare.control_plane(Path(folder), programs) as plane,
    ):
        define(plane, programs)
        progress("queues")
        holding = [each for each in question.snapshot.workloads if each.is_holding]
        asyncio.run(_load(plane, stack, holding))
        progress(f"{len(question.snapshot.workloads)} Workloads")
        with bare.kueue(plane, programs, config=stage.configuration(stack)):
            # What waits comes when Kueue knows what is taken: in its first moments it would give that away
            # twice.
            _await_counted(plane, holding)
            asyncio.run(_put(plane, [each for each in question.snapshot.workloads if not each.is_holding]))
            player = Player(
                plane, clock=question.clock, ran=_ran(question.snapshot), shapes=_shapes(question.snapshot)
            )
            is_settled = asyncio.run(player.play(most=question.most))
    return _outcome(question, player, is_settled=is_settled, seconds=time.monotonic() - begun)


async def _load(plane: ControlPlane, stack: Stack, workloads: Iterable[Workload]) -> None:
    context = ssl.create_default_context(cafile=str(plane.certificate))
    connector = aiohttp.TCPConnector(ssl=context, limit=_AT_ONCE)
    headers = {"Authorization": f"Bearer {plane.token}"}
    async with aiohttp.ClientSession(
        plane.url, connector=connector, headers=headers, timeout=_SECONDS
    ) as session:
        for act in stage.acts(stack):
            await asyncio.gather(*(_create(session, path, manifest) for path, manifest in act))
    await _put(plane, workloads)


async def _put(plane: ControlPlane, workloads: Iterable[Workload]) -> None:
    await etcd.put(plane.etcd, ((stored.key(each), stored.value(each)) for each in workloads))


def _await_counted(plane: ControlPlane, holding: Sequence[Workload]) -> None:
    """Until the queues' status counts every Workload that holds their quota, or the patience is over."""
    end = time.monotonic() + _COUNTED_SECONDS
    while time.monotonic() < end:
        queues: list[Any] = []
        with suppress(OSError):  # Kueue has just changed the kind, and for a moment nobody serves it
            queues = [*items(plane.call("GET", f"/apis/{names.KUEUE_API_VERSION}/clusterqueues"), "items")]
        known = {text(each, "metadata", "name") for each in queues}
        counted = sum(number(each, "status", "reservingWorkloads") or 0 for each in queues)
        if known and counted >= sum(each.cluster_queue in known for each in holding):
            return
        time.sleep(_PAUSE)


async def _create(session: aiohttp.ClientSession, path: str, manifest: Manifest) -> None:
    async with session.post(path, params={"fieldValidation": "Strict"}, json=manifest) as answer:
        if answer.status not in (201, 409):  # `default` is there already
            said = (await answer.json()).get("message", answer.reason)
            raise WhatIfError(f"{manifest['kind']} {manifest['metadata']['name']} is refused: {said}")


def _ran(snapshot: Snapshot) -> dict[str, float]:
    """Seconds that each Workload with quota has run, when the snapshot was taken."""
    return {
        stored.uid(each.namespace, each.name): _age(snapshot, each)
        for each in snapshot.workloads
        if each.is_holding
    }


def _shapes(snapshot: Snapshot) -> dict[str, Hashable]:
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


def _outcome(question: Question, player: Player, *, is_settled: bool, seconds: float) -> Outcome:
    known = {stored.uid(each.namespace, each.name): each for each in question.snapshot.workloads}
    reasons = player.reasons
    decisions = {
        uid: _decision(player, question, uid, known, reasons) for uid in known if uid in player.workloads
    }
    return Outcome(
        decisions={each.label: each for each in decisions.values()},
        gpus=_gpus(player),
        is_settled=is_settled,
        seconds=seconds,
    )


def _decision(
    player: Player,
    question: Question,
    uid: str,
    known: dict[str, Workload],
    reasons: Mapping[Hashable, str],
) -> Decision:
    workload, before = player.workloads[uid], known[uid]
    by, how = player.preempted.get(uid, ("", ""))
    found = fate(workload, was_running=before.is_holding, was_preempted=bool(how))
    waited = None
    if question.clock is not None and uid in player.admitted and before.state is State.PENDING:
        waited = player.admitted[uid] * question.clock.compression
    return Decision(
        namespace=before.namespace,
        name=before.name,
        fate=found,
        why=_why(player, uid, reasons) if found is Fate.PENDING else "",
        preemptor=f"{known[by].namespace}/{known[by].name}" if by in known else "",
        how=how,
        waited=waited,
    )


def _why(player: Player, uid: str, reasons: Mapping[Hashable, str]) -> str:
    """Kueue's reason, or its reason for one that is just like this."""
    own = text(condition(player.workloads[uid], "QuotaReserved"), "message")
    return own or reasons.get(player.shapes.get(uid), "")


def _gpus(player: Player) -> dict[str, int]:
    """GPUs in use by flavor, of all that hold quota in the end."""
    used: dict[str, int] = {}
    for workload in player.workloads.values():
        for pods in items(workload, "status", "admission", "podSetAssignments"):
            flavor = texts(pods, "flavors").get(names.GPU_RESOURCE)
            if flavor and fate(workload, was_running=True, was_preempted=False) is not Fate.ENDED:
                usage = texts(pods, "resourceUsage").get(names.GPU_RESOURCE, "0")
                used[flavor] = used.get(flavor, 0) + amount(names.GPU_RESOURCE, usage)
    return used
