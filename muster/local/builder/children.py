"""The child processes of a build.

Responsible for: starting, watching and stopping a child so that none is left behind, and describing its
failure.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from muster.errors import ExitCode, MusterError
from muster.local import LocalClusterError

_GRACE_SECONDS: Final = 5.0
_TAIL: Final = 40


class BuildStoppedError(MusterError):
    """The build was asked to end; nothing is wrong."""

    default_exit_code = ExitCode.INTERRUPTED

    def __init__(self, message: str = "interrupted; what was built so far is kept.") -> None:
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Failure:
    """How a child ended that did not end well; `tail` is the end of its output."""

    code: int
    tail: tuple[str, ...]

    def text(self) -> str:
        return "\n".join(self.tail)


class Children:
    """Starts children in process groups of their own, so that a Ctrl-C reaches them only through us."""

    def __init__(self) -> None:
        self.stopping = threading.Event()
        self._running: set[subprocess.Popen[str]] = set()
        self._lock = threading.Lock()

    def run(
        self,
        argv: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float = 1800.0,
        on_line: Callable[[str], None] | None = None,
    ) -> Failure | None:
        """Run to the end: None when it went well. Raises BuildStoppedError when asked to end."""
        child = self._start(argv, cwd=cwd, env=env)
        watchdog = threading.Timer(timeout, _signal_group, (child, signal.SIGKILL))
        watchdog.daemon = True
        watchdog.start()
        tail: deque[str] = deque(maxlen=_TAIL)
        try:
            for line in child.stdout or ():
                text = line.rstrip("\n")
                tail.append(text)
                if on_line:
                    on_line(text)
            code = child.wait()
        except BaseException:
            # After a Ctrl-C that arrives right here, no other code would know of this child.
            self._end([child])
            raise
        finally:
            overdue = not watchdog.is_alive()
            watchdog.cancel()
            with self._lock:
                self._running.discard(child)
        if self.stopping.is_set():
            raise BuildStoppedError
        if overdue and code != 0:
            tail.append(f"it was ended after {timeout:.0f} s")
        return None if code == 0 else Failure(code=code, tail=tuple(tail))

    def check(
        self,
        argv: Sequence[str],
        *,
        where: str,
        fix: str,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float = 1800.0,
    ) -> None:
        """Run to the end or raise a LocalClusterError with the last words of the child."""
        if failure := self.run(argv, cwd=cwd, env=env, timeout=timeout):
            raise explain(failure, where=where, fix=fix)

    def stop(self) -> None:
        """Ask every child to end, and end those that do not within five seconds."""
        self.stopping.set()
        with self._lock:
            running = list(self._running)
        self._end(running)

    def _end(self, running: Sequence[subprocess.Popen[str]]) -> None:
        for child in running:
            _signal_group(child, signal.SIGTERM)
        for child in running:
            with suppress(subprocess.TimeoutExpired):
                child.wait(_GRACE_SECONDS)
            # Also when it has ended: its own children may still be there.
            _signal_group(child, signal.SIGKILL)
            child.wait()

    def _start(
        self, argv: Sequence[str], *, cwd: Path | None, env: Mapping[str, str] | None
    ) -> subprocess.Popen[str]:
        if self.stopping.is_set():
            raise BuildStoppedError
        try:
            child = subprocess.Popen(
                list(argv),
                cwd=cwd,
                env=None if env is None else dict(env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        except FileNotFoundError as problem:
            raise LocalClusterError(
                argv[0], "is not on this machine", fix=f"install the package that holds {argv[0]}"
            ) from problem
        with self._lock:
            self._running.add(child)
        return child


def explain(failure: Failure, *, where: str, fix: str) -> LocalClusterError:
    """Make one line of the end of a child's output; a full disk and a kill get a fix of their own."""
    text = failure.text().lower()
    if "no space left on device" in text:
        return LocalClusterError(
            where, "the disk is full", fix="free some space or point MUSTER_CACHE elsewhere"
        )
    if failure.code in (-signal.SIGKILL, 137) or "signal: killed" in text:
        return LocalClusterError(
            where, "was killed, most likely for lack of memory", fix="free memory; 4 GiB are needed"
        )
    said = [line.strip() for line in failure.tail if line.strip()]
    return LocalClusterError(
        where, f"failed with code {failure.code} ({' | '.join(said[-3:]) or 'no output'})", fix=fix
    )


def _signal_group(child: subprocess.Popen[str], number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)
