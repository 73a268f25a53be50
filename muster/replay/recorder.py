"""Records a cluster into a file until a signal: begins the file, or goes on with it."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from muster.controller.kube.client import Client
from muster.controller.kube.connection import Connection
from muster.controller.kube.errors import Forbidden, KubeError, NotFound
from muster.errors import ExitCode
from muster.model.quantities import many
from muster.model.stack import Scheduler
from muster.replay.moment import Tracker
from muster.replay.recording import Header, Ids, RecordingError
from muster.replay.recording_file import Writer, load_recording, older_parts
from muster.replay.sources import POD_GROUPS, WORKLOADS, PodGroups, Workloads
from muster.replay.watch import (
    AGENT,
    NODES,
    PLACEHOLDERS,
    REQUESTS,
    Kind,
    Recorder,
    Source,
    WithNodes,
    quiet_logs,
)


class _Recorded(NamedTuple):
    """What is recorded with a scheduler. `bought`: what says which nodes were bought, and whom for."""

    jobs: Kind
    source: Callable[[Ids, float, bool], Source]
    bought: tuple[Kind, ...]
    left_out: tuple[str, ...]


_RECORDED: Final = {
    Scheduler.KUEUE: _Recorded(
        jobs=WORKLOADS,
        source=lambda ids, start, named: Workloads(Tracker(ids=ids, start=start, with_names=named)),
        bought=(NODES, REQUESTS, PLACEHOLDERS),
        left_out=(
            "Jobs that finished before the start.",
            "Times in which a Workload was deactivated: they count as waiting.",
            "Topology requests, admission checks' answers, and elastic changes of a running job's size.",
        ),
    ),
    Scheduler.KAI: _Recorded(
        jobs=POD_GROUPS,
        source=lambda ids, start, named: PodGroups(ids=ids, start=start, with_names=named),
        # KAI binds a gang's pods whole: nodes wait for none.
        bought=(NODES,),
        left_out=(
            "Jobs that ended before the start.",
            "Fractions of GPUs: a job that shares a GPU is recorded without it.",
            "Topology requests, and elastic changes of a running job's size.",
            "Whether a job that was removed with its pods had succeeded: it counts as deleted.",
        ),
    ),
}
# What ended before the last mark is in an older part. A condition is dated by another clock than the mark.
_LATE_SECONDS: Final = 60.0
_NAMES_LEFT_OUT: Final = "Names of jobs; their ids are keyed hashes."
_NODES_LEFT_OUT: Final = "Nodes: the account may not list them."
_UNKNOWN_WITHOUT: Final = {
    NODES: "what was bought",
    REQUESTS: "which nodes of a lease waited for their gang",
    PLACEHOLDERS: "which nodes with placeholders waited for their gang",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What to record. `scheduler` None records the one whose jobs the cluster serves, Kueue before KAI.
    `seconds` None ends by a signal alone. `keep_bytes`: older parts are deleted beyond this size; None keeps
    all.
    """

    out: Path
    scheduler: Scheduler | None = None
    seconds: float | None = None
    with_names: bool = False
    rotate_bytes: int
    keep_bytes: int | None = None


def record(order: Order, connect: Callable[[], Connection], progress: Callable[[str], None]) -> int:
    """Record into a file; how many jobs were seen. Ctrl-C and SIGTERM end it like the end of its time."""
    quiet_logs()
    return asyncio.run(_record(order, connect, progress))


async def _record(order: Order, connect: Callable[[], Connection], progress: Callable[[str], None]) -> int:
    scheduler, bought = await _check(connect(), order.scheduler)
    for kind, unknown in _UNKNOWN_WITHOUT.items():
        if kind in _RECORDED[scheduler].bought and kind not in bought:
            progress(f"the account cannot list {kind.resource}, so `muster usage` will not know {unknown}")
    start = _resume if order.out.exists() else _begin
    writer, source, last_mark = start(order, scheduler, progress, bought)
    with writer:
        recorder = Recorder(
            connect=connect, source=source, writer=writer, progress=progress, last_mark=last_mark
        )
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(each, stop.set)
        return await recorder.run(stop, seconds=order.seconds)


async def _check(connection: Connection, wanted: Scheduler | None) -> tuple[Scheduler, tuple[Kind, ...]]:
    """One small list of each kind, so that a missing right is an error now and not a retry for ever. Without
    a right the API server refuses a kind that it does not serve in the same way as any other. The scheduler,
    and what of `bought` may be listed: jobs are recorded without it as well.
    """
    refusals: list[KubeError] = []
    async with Client(connection, field_manager=AGENT, user_agent=AGENT) as client:
        for scheduler in (wanted,) if wanted else tuple(_RECORDED):
            try:
                await _list_one(client, _RECORDED[scheduler].jobs)
            except NotFound:
                continue
            except Forbidden as error:
                refusals.append(error)
                continue
            except KubeError as error:
                raise _unreadable(connection, error) from None
            beside = _RECORDED[scheduler].bought
            listed = []
            for kind in _source(scheduler, Ids(b""), 0.0, with_names=False, bought=beside).kinds:
                try:
                    await _list_one(client, kind)
                    listed.append(kind)
                except KubeError as error:
                    if kind not in beside or not isinstance(error, Forbidden | NotFound):
                        raise _unreadable(connection, error) from None
            return scheduler, tuple(kind for kind in listed if kind in beside) if NODES in listed else ()
    if refusals:
        raise _unreadable(connection, refusals[0])
    kinds = " or ".join(
        f"{each.jobs.resource} ({each.jobs.resource.api_version})"
        for scheduler, each in _RECORDED.items()
        if wanted in (None, scheduler)
    )
    raise RecordingError(
        f"{connection.server}: it does not serve {kinds}.",
        fix="use the context of a cluster with Kueue or KAI.",
        exit_code=ExitCode.OUTSIDE,
    )


async def _list_one(client: Client, kind: Kind) -> None:
    async with aclosing(client.pages(kind.resource, kind.selection, size=1)) as pages:
        await anext(pages)


def _unreadable(connection: Connection, error: KubeError) -> RecordingError:
    return RecordingError(
        f"{connection.server}: {str(error).rstrip('.')}.",
        fix='give it the rights that the page "Replay" of the documentation lists for recording.',
        exit_code=ExitCode.OUTSIDE,
    )


def _source(
    scheduler: Scheduler, ids: Ids, start: float, *, with_names: bool, bought: Sequence[Kind]
) -> Source:
    jobs = _RECORDED[scheduler].source(ids, start, with_names)
    return WithNodes(jobs, ids, bought[1:]) if bought else jobs


def _begin(
    order: Order, scheduler: Scheduler, progress: Callable[[str], None], bought: Sequence[Kind]
) -> tuple[Writer, Source, float]:
    now = time.time()
    left_out = (*_RECORDED[scheduler].left_out, *(() if bought else (_NODES_LEFT_OUT,)))
    header = Header(
        scheduler=scheduler,
        start=now,
        end=now,
        source="cluster",
        left_out=left_out if order.with_names else (*left_out, _NAMES_LEFT_OUT),
        has_names=order.with_names,
        nodes_from=now if bought else None,
    )
    ids = Ids.create(order.out)
    try:
        writer = Writer.begin(order.out, header, rotate_bytes=order.rotate_bytes, keep_bytes=order.keep_bytes)
    except RecordingError:
        Ids.discard(order.out)
        raise
    return writer, _source(scheduler, ids, now, with_names=order.with_names, bought=bought), now


def _resume(
    order: Order, scheduler: Scheduler, progress: Callable[[str], None], bought: Sequence[Kind]
) -> tuple[Writer, Source, float]:
    found = load_recording(order.out, most_older=0)
    header = found.header
    if header.source != "cluster":
        raise _cannot_continue(order.out, "it was imported")
    if header.has_names != order.with_names:
        raise _cannot_continue(order.out, "it was begun with another --with-names")
    if header.scheduler != scheduler:
        raise _cannot_continue(order.out, f"it holds jobs of {header.scheduler}")
    if header.nodes_from is not None and not bought:
        raise _cannot_continue(order.out, "it has nodes, which the account may no longer list")
    for warning in found.warnings:
        progress(warning)
    start = max(header.start, header.end - _LATE_SECONDS) if older_parts(order.out) else header.start
    ids = Ids.load(order.out)
    source = _source(scheduler, ids, start, with_names=order.with_names, bought=bought)
    source.restore(found)
    progress(f"{order.out}: continued; it holds {many(len(found.jobs), 'job')}")
    writer = Writer.resume(order.out, found, rotate_bytes=order.rotate_bytes, keep_bytes=order.keep_bytes)
    if bought and header.nodes_from is None:
        writer.add([replace(header, nodes_from=time.time())])
    return writer, source, header.end


def _cannot_continue(out: Path, why: str) -> RecordingError:
    return RecordingError(f"{out}: cannot be continued: {why}.", fix="record into another file.")
