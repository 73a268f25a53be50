"""Runs one command as a step and lets it end by itself after Ctrl-C.

`subprocess.run` kills its child a quarter of a second after Ctrl-C. A `pulumi` that is killed leaves its
lock, a state without the resources that it was making, and Helm releases that the next run cannot install.
"""

from __future__ import annotations

import math
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from muster.errors import ExitCode, MusterError

GRACE: Final = 120.0
"""Seconds that an interrupted command has to finish and record what it has begun."""
LAST_GRACE: Final = 10.0
"""Seconds after a second interrupt, on which `pulumi` waits for nothing more and removes its lock."""
_INTERRUPTS: Final = frozenset({signal.SIGINT, signal.SIGTERM})
# si_code of a signal that the kernel sent, as it does for Ctrl-C on a terminal (sigaction(2)).
_FROM_KERNEL: Final = 128
_LONGEST_WAIT: Final = 3600.0


class InterruptedStepError(MusterError):
    """The user interrupted a step, and its command has ended."""

    default_exit_code = ExitCode.INTERRUPTED

    def __init__(self, step: str, *, is_killed: bool, resume: str) -> None:
        how = f" and killed, because it did not end within {GRACE + LAST_GRACE:.0f} s" if is_killed else ""
        super().__init__(f"{step} was interrupted{how}.", fix=resume)


def run_step(step: str, command: Sequence[str], environment: Mapping[str, str], *, resume: str) -> int:
    """Run a command with its output in view; its exit code.

    SIGINT and SIGTERM interrupt the command, which then has GRACE seconds to end; after that
    InterruptedStepError is raised with `resume`, what to do next.
    """
    heeded = {number for number in _INTERRUPTS if signal.getsignal(number) is not signal.SIG_IGN}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, heeded | {signal.SIGCHLD})
    try:
        child = _Child(_started(command, environment, before), is_ours_alone=not sys.stdin.isatty())
        child.wait(heeded)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if child.interrupts:
        raise InterruptedStepError(step, is_killed=child.is_killed, resume=resume)
    return child.process.returncode


def _started(
    command: Sequence[str], environment: Mapping[str, str], mask: set[int | signal.Signals]
) -> subprocess.Popen[bytes]:
    """Start the command with the signal mask `mask`.

    On a terminal it stays in our process group: it reads keys, and Ctrl-C reaches it directly. Elsewhere a
    signal to our group must not reach it beside the one that we send: a second one stops `pulumi` at once.
    """
    return subprocess.Popen(
        command,
        env=dict(environment),
        process_group=None if sys.stdin.isatty() else 0,
        preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, mask),
    )


@dataclass(slots=True)
class _Child:
    """`is_ours_alone`: no signal reaches it but ours."""

    process: subprocess.Popen[bytes]
    is_ours_alone: bool
    interrupts: int = 0
    is_killed: bool = False

    def wait(self, heeded: set[signal.Signals]) -> None:
        """Until it has ended. The signals of `heeded` and SIGCHLD have to be blocked."""
        deadline = math.inf
        while self.process.poll() is None:
            remaining = max(0.0, min(deadline - time.monotonic(), _LONGEST_WAIT))
            received = signal.sigtimedwait(heeded | {signal.SIGCHLD}, remaining)
            if received is None and time.monotonic() >= deadline:
                self._press()
                deadline = time.monotonic() + LAST_GRACE
            elif received is not None and received.si_signo in heeded:
                is_sent = not self.is_ours_alone and received.si_code == _FROM_KERNEL
                self._interrupt(is_sent=is_sent)
                deadline = min(deadline, time.monotonic() + GRACE)

    def _interrupt(self, *, is_sent: bool) -> None:
        self.interrupts += 1
        if not is_sent:
            self.process.send_signal(signal.SIGINT)

    def _press(self) -> None:
        """Its time is over: interrupt it once more, then kill it."""
        if self.interrupts > 1:
            self.is_killed = True
            self.process.kill()
        else:
            self._interrupt(is_sent=False)
