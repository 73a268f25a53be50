"""The manager as a process: the real program, which tests kill, stop for a while and start again.

Forked from a process that has imported everything, because these tests start hundreds. What a fork changes
in the program is listed in `_hasten`: waits that production counts in seconds and minutes (a lease, a silent
watch, a kind that is gone, a backoff) are shorter here, and its wall clock may be wrong. Nothing else.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import cycle
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

from muster.controller import schedulers
from muster.controller.app import main
from muster.controller.gangs import kinds, reconciler
from muster.controller.gangs import setup as shared
from muster.controller.kube import reflector, transport
from muster.controller.kueue import setup
from muster.controller.runtime import informer, lease, queue
from muster.controller.runtime.controller import RequeueAfter

_FORKS: Final = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.faults.managers", "pytest"])
_PR_SET_PDEATHSIG: Final = 1
_END_SECONDS: Final = 30.0


@dataclass(slots=True)
class Manager:
    """One replica. `clocks`: how wrong its wall clock is, in seconds; the next one comes with `jump`."""

    kubeconfig: Path
    log: Path
    identity: str = "one"
    elects: bool = False
    clocks: Sequence[float] = (0.0,)
    health_port: int = 0
    exits: list[int | None] = field(default_factory=list)
    _process: BaseProcess | None = field(default=None)

    def start(self) -> None:
        argv = ["manager", f"--kubeconfig={self.kubeconfig}", f"--identity={self.identity}"]
        argv += [f"--health-port={self.health_port}", "--log-level=info"]
        argv += ["--leader-elect" if self.elects else "--no-leader-elect"]
        # Not daemonic: a process whose parent is killed is ended by the kernel (see _serve).
        self._process = _FORKS.Process(target=_serve, args=(argv, tuple(self.clocks), str(self.log)))
        self._process.start()

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.is_alive()

    @property
    def exit_code(self) -> int | None:
        return self._process.exitcode if self._process else None

    def kill(self) -> None:
        """As a power cut does. May be called from any thread, and twice."""
        self._signal(signal.SIGKILL)

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def jump(self) -> None:
        """The wall clock goes on to the next of `clocks`, and from the last to the first."""
        self._signal(signal.SIGUSR1)

    def stop(self) -> None:
        """As Kubernetes does, and harder when that is not enough."""
        if self._process is None:
            return
        self._signal(signal.SIGTERM)
        self._process.join(_END_SECONDS)
        self.end()

    def end(self) -> None:
        """Killed, and gone."""
        if self._process is not None:
            self.kill()
            self._process.join(_END_SECONDS)

    @contextmanager
    def kept(self) -> Iterator[Manager]:
        """As a kubelet does it: started, and again whenever it ends. `exits` tells how it ended."""
        self.start()
        leaving = threading.Event()

        def keep() -> None:
            while not leaving.is_set():
                assert self._process is not None
                if wait([self._process.sentinel], timeout=0.1) and not leaving.is_set():
                    self.exits.append(self.exit_code)
                    self.start()

        kubelet = threading.Thread(target=keep, daemon=True)
        kubelet.start()
        try:
            yield self
        finally:
            leaving.set()
            kubelet.join(_END_SECONDS)
            self.stop()

    def _signal(self, number: signal.Signals) -> None:
        pid = self._process.pid if self._process else None
        if pid is not None and self.is_alive:
            os.kill(pid, number)


def _serve(argv: list[str], clocks: tuple[float, ...], log: str) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    with Path(log).open("ab", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    _hasten()
    _skew(clocks)
    sys.exit(main(argv, register=schedulers.setup, webhooks=setup.webhooks, environment={}))


def _hasten() -> None:
    """Constants of the program, and arguments that had them as a default when they were read."""
    lease.LEASE_SECONDS, lease.RENEW_DEADLINE = 6, 4.0
    lease.RETRY_PERIOD, lease.ATTEMPT_TIMEOUT = 0.5, 1.5
    transport.RETRY_CAP = 0.5
    _default(transport.Call.__init__, "timeout", 3.0)
    reflector.BACKOFF_BASE, reflector.BACKOFF_CAP, reflector.STEADY_AFTER = 0.1, 0.5, 1.0
    _default(reflector.Reflector.__init__, "idle_timeout", 4.0)
    queue.EAGER_PAUSE = 0.3
    _default(queue.WorkQueue.__init__, "cap", 0.5)
    informer.GONE_AFTER, kinds.RECHECK_INTERVAL = 6.0, RequeueAfter(1.0)


def _default(function: object, name: str, value: object) -> None:
    defaults = getattr(function, "__kwdefaults__", None) or {}
    assert name in defaults, f"{function} has no argument {name} with a default any more"
    defaults[name] = value


def _skew(clocks: tuple[float, ...]) -> None:
    """The wall clock that gangs' deadlines are judged by."""
    offsets = cycle(clocks)
    now = [next(offsets)]

    def clock() -> datetime:
        return datetime.now(UTC) + timedelta(seconds=now[0])

    def jumped(number: int, frame: object) -> None:
        now[0] = next(offsets)

    signal.signal(signal.SIGUSR1, jumped)
    for module in (setup, shared):
        vars(module)["utc_now"] = clock
    _default(reconciler.GangReconciler.__init__, "clock", clock)
