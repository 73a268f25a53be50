"""Plays jobs through Kueue's own scheduler in logical time: a month of jobs takes a minute or two.

The program `kueue-player` (muster/local/builder/programs) holds Kueue and moves the clock.
"""

import json
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final

from muster.errors import ExitCode, MusterError
from muster.live.snapshot.kueue import parse_amount
from muster.live.snapshot.workloads import Amounts
from muster.replay.recording import Run

# What happened to jobs that were played. Plain data.


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedRun:
    """A run of a job, in seconds since the epoch. `end` is None while it runs. `usage`: flavor -> resource ->
    amount. `delay`: seconds from the start until its nodes are there. `by` is the job that preempted it (""
    where it was not), `reason` Kueue's.
    """

    start: float
    end: float | None
    usage: Mapping[str, Amounts]
    delay: float = 0
    is_evicted: bool = False
    by: str = ""
    reason: str = ""

    @property
    def begin(self) -> float | None:
        """When its pods began; None where it lost its quota before its nodes were there."""
        begin = self.start + self.delay
        return begin if self.end is None or begin < self.end else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Playback:
    """What happened. `runs`: "namespace/name" -> runs, empty for a job that never started. `reasons`: of jobs
    that wait at the end, Kueue's words where it gave any. `digest` is equal
    for equal decisions at equal times. `end` is the time of the last event. `is_cut`: the limit of time ended
    the play there, and what comes later is not known.
    """

    runs: Mapping[str, Sequence[PlayedRun]]
    digest: str
    end: float
    cycles: int
    admissions: int
    preemptions: int
    is_cut: bool = False
    reasons: Mapping[str, str] = field(default_factory=dict)


Manifest = Mapping[str, Any]

PROGRAM: Final = "kueue-player"
UNPLAYABLE: Final = 2
"""The code with which a player ends that refuses its input."""
_THREAD: Final = threading.local()
"""`players`: those of the pool whose thread this is."""


class PlayerError(MusterError):
    """The player failed."""


class UnplayableError(PlayerError):
    """The player would decide otherwise than the scheduler does in a cluster. `why` has no full stop."""

    def __init__(self, why: str) -> None:
        self.sentence = f"{why[:1].upper()}{why[1:]}."
        super().__init__(f"The work cannot be played: {why}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What Kueue decides by: the rendered objects of its queues, and its configuration.

    `grace` is the time in seconds between an eviction and the release of its quota. `horizon`: seconds after
    the first arrival when the play ends; 0 plays until no job can start any more. `cycle`: seconds that a
    cycle of the scheduler takes, and each Workload more that it writes in one. `memory`: MiB that the
    process may use before it collects garbage at any cost. `limit`: seconds of the real clock after which the
    play ends where it is; 0 for no limit.
    """

    objects: Sequence[Manifest]
    config: Manifest = field(default_factory=dict)
    grace: float = 0
    horizon: float = 0
    cycle: float = 0
    # Two processes, for two sides of a comparison, fit within 512 MiB with the rest.
    memory: int = 128
    limit: float = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A job to play: a Workload, and the seconds that it runs without interruption. Without them it never
    ends.

    One with an admission in its status holds quota when it arrives, and has run for `ran` seconds; below 0,
    its nodes are there in so many. `at`: when it arrives, None for the second of its creation. `delays`:
    flavor -> seconds that it holds quota before it runs, until the nodes are there. `grace`: as of the world,
    of this job; None for the world's. Times are exact to the millisecond; Kueue itself is shown whole
    seconds, as on an API server.

    `recorded` are its runs as they were: what is decided within a second of one is taken for the same, and
    ends when that did.
    """

    workload: Manifest
    seconds: float | None
    ran: float = 0
    at: float | None = None
    delays: Mapping[str, float] = field(default_factory=dict)
    grace: float | None = None
    recorded: Sequence[Run] = ()


def ensure_player() -> Path:
    """The program; it is built the first time, which takes half a minute where Kueue was built before."""
    # In a pod the program lies beside this code, and what builds programs does not.
    from muster.local.builder import everything

    return everything.ensure(programs=(PROGRAM,), assets=())[0][PROGRAM]


class Players:
    """The processes of a pool, so that another thread can end them. Ctrl-C in a terminal does not."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._is_stopped = False

    def stop(self) -> None:
        """Kill those that run, and those that are started from now on. Each raises PlayerError."""
        with self._lock:
            self._is_stopped = True
            for process in self._running:
                process.kill()

    @contextmanager
    def holding(self, process: subprocess.Popen[str]) -> Iterator[None]:
        with self._lock:
            self._running.add(process)
            if self._is_stopped:
                process.kill()
        try:
            yield
        finally:
            with self._lock:
                self._running.discard(process)


class PlayerPool(ThreadPoolExecutor):
    """Threads that play. A block that is left by an error, or by Ctrl-C, kills what plays and starts no
    more: the threads would go on with what waits, and the block would end when all of it is played.
    """

    def __init__(self, workers: int, players: Players | None = None) -> None:
        self._players = players or Players()
        super().__init__(
            max_workers=workers, initializer=setattr, initargs=(_THREAD, "players", self._players)
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._players.stop()
            self.shutdown(wait=False, cancel_futures=True)
        super().__exit__(kind, error, trace)


def play(world: World, entries: Iterable[Entry], *, program: Path) -> Playback:
    """Play the jobs in these queues. UnplayableError where the player cannot play them as Kueue would."""
    return play_lines([program], _document(world), map(_line, entries))


def play_lines(
    command: Sequence[str | Path],
    document: Mapping[str, Any],
    lines: Iterable[Mapping[str, Any]],
) -> Playback:
    """Run a player: it reads the document and then the lines, and writes a line for each and a summary. It
    ends by itself when this process is killed (programs/*-player/reader.go). UnplayableError where it refuses
    them.
    """
    players: Players | None = getattr(_THREAD, "players", None)
    with (
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=players is not None,
        ) as process,
        nullcontext() if players is None else players.holding(process),
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            _write(process.stdin, document, lines)
            # It reads all of its input before it writes.
            found = _read(process.stdout)
            said = process.stderr.read().strip()
        except BaseException:
            process.kill()
            raise
    if process.returncode == UNPLAYABLE:
        raise UnplayableError(said)
    if process.returncode or found is None:
        raise PlayerError(
            f"The player ended with code {process.returncode}: {said[-600:]}", exit_code=ExitCode.OUTSIDE
        )
    return found


def _write(stream: IO[str], document: Mapping[str, Any], lines: Iterable[Mapping[str, Any]]) -> None:
    try:
        for each in chain((document,), lines):
            stream.write(json.dumps(each, separators=(",", ":")) + "\n")
        stream.close()
    except BrokenPipeError:
        # It refused the world and ended; standard error says why.
        with suppress(BrokenPipeError):
            stream.close()


def _line(entry: Entry) -> dict[str, Any]:
    return {
        "workload": entry.workload,
        "seconds": entry.seconds,
        "ran": entry.ran,
        "at": entry.at,
        "delays": entry.delays,
        "grace": entry.grace,
        "recorded": [_recorded(run) for run in entry.recorded],
    }


def _recorded(run: Run) -> dict[str, float | None]:
    return {"start": run.reserved, "evicted": run.evicted, "end": run.ended}


def _document(world: World) -> dict[str, Any]:
    return {
        "config": world.config,
        "graceSeconds": world.grace,
        "cycleSeconds": world.cycle,
        "horizonSeconds": world.horizon,
        "limitSeconds": world.limit,
        "memoryMiB": world.memory,
        "objects": list(world.objects),
    }


def _read(stream: IO[str]) -> Playback | None:
    """The jobs and the summary; None where the program ended without one."""
    runs: dict[str, Sequence[PlayedRun]] = {}
    usages: _Usages = {}
    reasons: dict[str, str] = {}
    for line in stream:
        found = json.loads(line)
        if "job" in found:
            # Several playbacks of one recording may be kept.
            job = sys.intern(found["job"])
            runs[job] = tuple(_runs(found["runs"] or (), usages))
            if why := found.get("why", ""):
                reasons[job] = why
            continue
        return Playback(
            runs=runs,
            reasons=reasons,
            digest=found["digest"],
            end=found["end"],
            cycles=found["cycles"],
            admissions=found["admissions"],
            preemptions=found["preemptions"],
            is_cut=found.get("cut", False),
        )
    return None


def _runs(found: Iterable[Mapping[str, Any]], usages: "_Usages") -> Iterator[PlayedRun]:
    for each in found:
        yield PlayedRun(
            start=each["start"],
            end=each["end"],
            usage=_usage(each["usage"], usages),
            delay=each.get("delay", 0),
            is_evicted=each.get("evicted", False),
            by=each.get("by", ""),
            reason=each.get("reason", ""),
        )


_Usages = dict[tuple[tuple[str, tuple[tuple[str, str], ...]], ...], Mapping[str, Amounts]]
"""Equal usages are one object: most jobs of a month have one of a few shapes."""


def _usage(found: Mapping[str, Mapping[str, str]], usages: _Usages) -> Mapping[str, Amounts]:
    key = tuple((flavor, tuple(amounts.items())) for flavor, amounts in found.items())
    if key not in usages:
        usages[key] = {
            flavor: {resource: parse_amount(resource, amount) for resource, amount in amounts.items()}
            for flavor, amounts in found.items()
        }
    return usages[key]
