"""What a process has cost so far, by the kernel's own counters.

CPU seconds and the largest resident memory from /proc; bytes on the wire from the counters of its TCP
sockets (`ss` of iproute2), which see watches as well as calls, TLS included.
"""

import os
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_EVERY: Final = 0.5
QUIET: Final = 3.0
"""Seconds with less than a twentieth of a core, after which a process has nothing to do any more."""
_BUSY: Final = 0.05
_PATIENCE: Final = 300.0
_SOCKET: Final = re.compile(r"^\S+\s+\S+\s+(?P<near>\S+)\s+(?P<far>\S+).*pid=(?P<pid>\d+)")
_Socket = tuple[int, str, str]
"""The process, its address and the other's."""
_COUNTER: Final = re.compile(r"\bbytes_(sent|received):(\d+)")


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU in seconds, `peak` in bytes since the process began."""

    cpu: float
    peak: int

    def since(self, before: "Usage") -> "Usage":
        return Usage(self.cpu - before.cpu, self.peak)


def usage(pid: int) -> Usage:
    """Of a process that is there. (proc_pid_stat(5), proc_pid_status(5): VmHWM)"""
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    user, system = stat.rpartition(")")[2].split()[11:13]
    return Usage((int(user) + int(system)) / _TICKS, _status_bytes(pid, "VmHWM:"))


@dataclass(slots=True)
class Wire:
    """Bytes of each process's sockets, as far as they were seen alive."""

    _before: dict[_Socket, int] = field(default_factory=dict)
    _seen: dict[_Socket, int] = field(default_factory=dict)

    def of(self, pid: int) -> int:
        """Both ways together."""
        counts = ((socket, count) for socket, count in self._seen.items() if socket[0] == pid)
        return sum(count - self._before.get(socket, 0) for socket, count in counts)

    def begin(self, output: str) -> None:
        """What was there already does not count."""
        self._before = _counts(output)

    def look(self, output: str) -> None:
        """Takes the output of `ss -tinpH`. A socket that has closed keeps its last count."""
        self._seen |= _counts(output)


def _counts(output: str) -> dict[_Socket, int]:
    """A line with the addresses and the owner, and below it one with the counters."""
    found: dict[_Socket, int] = {}
    place: _Socket | None = None
    for line in output.splitlines():
        match = _SOCKET.match(line)
        if match is not None:
            place = int(match["pid"]), match["near"], match["far"]
        elif place is not None:
            found[place] = sum(int(count) for _, count in _COUNTER.findall(line))
            place = None
    return found


@contextmanager
def watched(wire: Wire) -> Iterator[None]:
    """Looks twice a second until the block ends, and counts from its begin; sees nothing where there is no
    `ss`.
    """
    wire.begin(_sockets())
    end = threading.Event()
    looking = threading.Thread(target=_look, args=(wire, end), daemon=True)
    looking.start()
    try:
        yield
    finally:
        end.set()
        looking.join()


def _look(wire: Wire, end: threading.Event) -> None:
    is_over = False
    while not is_over:
        is_over = end.wait(_EVERY)  # once more at the end
        wire.look(_sockets())


def _sockets() -> str:
    try:
        done = subprocess.run(["ss", "-tinpH"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout


def resident(pid: int) -> int:
    """Bytes of memory that it holds now."""
    return _status_bytes(pid, "VmRSS:")


def _status_bytes(pid: int, key: str) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    found = next((line for line in status.splitlines() if line.startswith(key)), "")
    if not found:
        raise ProcessLookupError(f"process {pid} has ended")  # The kernel keeps no memory of a zombie.
    return int(found.split()[1]) * 1024


def quiet(*pids: int) -> None:
    """Until none of the processes has anything to do, or the patience is over."""
    begun = since = time.monotonic()
    last = sum(usage(pid).cpu for pid in pids)
    while time.monotonic() - since < QUIET and time.monotonic() - begun < _PATIENCE:
        time.sleep(_EVERY)
        now = sum(usage(pid).cpu for pid in pids)
        if now - last > _BUSY * _EVERY * len(pids):
            since = time.monotonic()
        last = now
