"""A child process: started, watched until it is ready, and ended with the caller."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from muster.local.errors import LocalClusterError

# A killed process with gigabytes takes its time to go on a machine that has much else to do.
_GRACE_SECONDS: Final = 60.0
_PAUSE_SECONDS: Final = 0.1
_TAIL_BYTES: Final = 2000


class Process:
    """A program with its log. `start` after `kill` brings it back with the same arguments."""

    def __init__(
        self, name: str, argv: Sequence[str], *, log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log = log
        self._argv = list(argv)
        self._environment = environment
        self._child: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    def start(self, *also: str) -> None:
        """In a process group of its own, so that a Ctrl-C reaches it only through us. `also`: arguments for
        this time only.
        """
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                [*self._argv, *also],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                process_group=0,
            )
        # A killed caller cannot clean up. The end of its pipe is the sign. (The kernel's own sign, PDEATHSIG,
        # comes when the starting thread ends, which may be long before.)
        self._guard = subprocess.Popen(
            ["sh", "-c", 'cat >/dev/null; kill -9 -"$0" 2>/dev/null', str(self._child.pid)],
            stdin=subprocess.PIPE,
            process_group=0,
        )

    def await_(self, ready: Callable[[], bool], *, seconds: float) -> None:
        """Return when it is ready. Raise LocalClusterError when it ends first or at the timeout."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not self.is_alive:
                raise LocalClusterError(
                    self.name, f"ended by itself:\n{self._tail()}", fix="see its log above"
                )
            with suppress(OSError, ValueError):
                if ready():
                    return
            time.sleep(_PAUSE_SECONDS)
        raise LocalClusterError(
            self.name, f"is not ready after {seconds:.0f} s:\n{self._tail()}", fix="see its log above"
        )

    def stop(self, *, seconds: float = 60.0) -> None:
        """Ask it to end, and wait until it has; LocalClusterError when it does not."""
        if self._child is None:
            return
        self._child.terminate()
        try:
            self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            message = f"does not end within {seconds:.0f} s:\n{self._tail()}"
            raise LocalClusterError(self.name, message, fix="see its log above") from None
        finally:
            self.kill()

    def kill(self) -> None:
        """A power cut."""
        if self._child is not None and self._guard is not None:
            self._child.kill()
            self._child.wait(_GRACE_SECONDS)
            self._guard.communicate(timeout=_GRACE_SECONDS)
            self._child = self._guard = None

    @property
    def is_alive(self) -> bool:
        return self._child is not None and self._child.poll() is None

    @property
    def pid(self) -> int | None:
        return None if self._child is None else self._child.pid

    def _tail(self) -> str:
        text = self.log.read_bytes()[-_TAIL_BYTES:] if self.log.exists() else b""
        return text.decode(errors="replace")
