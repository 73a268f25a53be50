"""One trial: one contender, one case, from an empty plane to its figures."""

import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bench.gangs import audit, build, figures
from bench.gangs.cases import Case
from bench.gangs.cloud import Cloud
from bench.gangs.figures import Agent, Latency
from bench.gangs.load import Load
from bench.gangs.shapes import OUT
from bench.gangs.stage import Stage, StageError, full_stage
from bench.gangs.timeline import Gang, Moment, Timeline, asker, timelines
from bench.gangs.usage import Usage, Wire, usage, watched
from bench.gangs.variants import Contender
from muster.local.simulated_cloud.api import Access, Api, Raw
from tests.envtest import Programs

Progress = Callable[[str], None]
# What follows the last admission (events, templates that change hands) belongs to the trial too.
_SETTLING: Final = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What one trial came to. Latencies in seconds, memory and traffic in bytes, by program."""

    case: str
    contender: str
    gangs: int
    admitted: int
    seconds: float
    throughput: float
    to_request: Latency | None
    to_ready: Latency | None
    to_admission: Latency | None
    lost_share: float | None
    agents: Mapping[str, Agent]
    usage: Mapping[str, Usage]
    wire: Mapping[str, int]
    load_before: float
    is_cut_short: bool
    when: str = ""
    """Minute in UTC at which it began."""
    build: str = ""
    """The commit that was measured (build.here); empty where it was not recorded."""
    round: str = ""
    """Its run and round: trials of a case that share it took turns, within minutes. Empty where none did."""
    retries: int | None = None
    """Requests that failed, but for each gang's first."""


@dataclass(slots=True)
class _Played:
    seconds: float = 0.0
    is_cut_short: bool = False
    usage: dict[str, Usage] = field(default_factory=dict)
    wire: dict[str, int] = field(default_factory=dict)


def run(case: Case, contender: Contender, programs: Programs, *, on_progress: Progress) -> Trial:
    """Run one trial. A trial that takes longer than its case allows is cut short and marked so."""
    load_before, when, measured = os.getloadavg()[0], datetime.now(UTC), build.here()
    with (
        tempfile.TemporaryDirectory(prefix="muster-bench-") as folder,
        full_stage(Path(folder), programs, contender, case.shape) as stage,
    ):
        played = asyncio.run(_play(case, stage, on_progress))
        on_progress("reading the log")
        gangs, agents = _read(stage.log)
    return Trial(
        case=case.name,
        contender=contender.name,
        gangs=len(gangs),
        admitted=sum(each.first(Moment.ADMITTED) is not None for each in gangs.values()),
        seconds=played.seconds,
        throughput=figures.throughput(gangs),
        to_request=figures.latency(gangs, Moment.RESERVED, Moment.REQUESTED),
        to_ready=figures.latency(gangs, Moment.PROVISIONED, Moment.READY),
        to_admission=figures.to_admission(gangs),
        lost_share=_lost(case, gangs),
        agents=agents,
        usage=played.usage,
        wire=played.wire,
        load_before=load_before,
        is_cut_short=played.is_cut_short,
        when=f"{when:%Y-%m-%d %H:%M}",
        build=measured,
        retries=None if case.slots is None else figures.retries(gangs),
    )


def _read(log: Path) -> tuple[dict[Gang, Timeline], dict[str, Agent]]:
    """What became of the gangs, and what it took from the first one's creation on. Line by line, twice: the
    log of ten thousand gangs is a gigabyte.
    """
    with log.open("rb") as lines:
        gangs = timelines(audit.calls(lines))
    begun = min((at for each in gangs.values() if (at := each.first(Moment.CREATED))), default=None)
    with log.open("rb") as lines:
        return gangs, figures.agents(each for each in audit.calls(lines) if begun and each.at >= begun)


async def _play(case: Case, stage: Stage, on_progress: Progress) -> _Played:
    played, wire, pids = _Played(), Wire(), stage.pids()
    before = {name: usage(pid) for name, pid in pids.items()}
    begun = time.monotonic()
    async with Api(Access.read(stage.plane.kubeconfig())) as api:
        load = Load(api, list(case.gangs()), on_progress=lambda left: on_progress(f"{left} left"))
        cloud = Cloud(api, is_out=_is_out, delay=case.delay)
        beside = [asyncio.create_task(each) for each in (cloud.run(), load.follow())]
        with watched(wire):
            try:
                await _either(load, case, beside)
            except TimeoutError:
                played.is_cut_short = True
            played.seconds = time.monotonic() - begun
            await asyncio.sleep(_SETTLING)
        for task in beside:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
    try:
        played.usage = {name: usage(pid).since(before[name]) for name, pid in pids.items()}
    except ProcessLookupError as ended:
        raise StageError(f"{ended}: a manager ends when it cannot renew its lease; use idle cores") from ended
    played.wire = {name: wire.of(pids[name]) for name in stage.processes}
    return played


async def _either(load: Load, case: Case, beside: list[asyncio.Task[None]]) -> None:
    """Until the load is over. TimeoutError when the case has lasted as long as it may; StageError when the
    load, the cloud or the watch broke before that, be it by a timeout of its own.
    """

    async def all_of_it() -> None:
        await load.submit(rate=case.rate)
        await load.over()

    async with asyncio.timeout(case.most):
        main = asyncio.create_task(all_of_it())
        try:
            done, _ = await asyncio.wait([main, *beside], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                if (error := task.exception()) is not None:
                    raise StageError(f"it did not last: {_innermost(error)!r}") from error
        finally:
            main.cancel()


def _innermost(error: BaseException) -> BaseException:
    """Task groups wrap what ends them."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _is_out(request: Raw) -> bool:
    return (asker(request["metadata"]) or "").startswith(OUT)


def _lost(case: Case, gangs: Mapping[Gang, Timeline]) -> float | None:
    if case.slots is None:
        return None
    out = [gang for gang in gangs if gang[1].startswith(OUT)]
    return figures.lost_share(gangs, stocked_out=out, slots=case.slots)
