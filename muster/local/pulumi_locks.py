"""The locks of stacks in Pulumi's file backend: who holds each, and whether that process still runs.

A lock is a file that names its process (`lockContent` of pkg/backend/diy/lock.go, 3.200). `pulumi` removes it
at its end; one that was killed leaves it, and every later update of the stack is refused.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

PROJECT: Final = "muster"
"""The project's name in Pulumi.yaml."""
_PROC: Final = Path("/proc")
# A process that was started this long after the lock was made has the number of one that has ended. Wall
# clock and boot time are read separately and are whole seconds.
_CLOCK_SLACK: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PulumiLock:
    """`pid` is 0 where the file cannot be read."""

    path: Path
    pid: int
    user: str
    host: str
    since: datetime

    @property
    def is_local(self) -> bool:
        """Whether its process was started on this machine."""
        return bool(self.pid) and self.host == socket.gethostname()

    @property
    def is_left_over(self) -> bool:
        """Whether its process was started on this machine and has ended."""
        return self.is_local and not _runs(self.pid, self.since)

    def __str__(self) -> str:
        if not self.pid:
            return f"{self.path}, which cannot be read"
        since = f"{self.since.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
        return f"process {self.pid} of {self.user} on {self.host}, since {since}"


def locks_of(backend: Path, *, stack: str) -> list[PulumiLock]:
    """The locks of a stack in the file backend that is this folder."""
    folder = backend / ".pulumi" / "locks" / "organization" / PROJECT / stack
    return [_read(path) for path in sorted(folder.glob("*.json"))]


def _read(path: Path) -> PulumiLock:
    try:
        found: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return PulumiLock(
            path=path,
            pid=int(found["pid"]),
            user=str(found["username"]),
            host=str(found["hostname"]),
            since=datetime.fromisoformat(str(found["timestamp"])),
        )
    except (OSError, ValueError, TypeError, KeyError):
        return PulumiLock(path=path, pid=0, user="", host="", since=datetime.fromtimestamp(0, UTC))


def _runs(pid: int, since: datetime) -> bool:
    """Whether the process that had this number at `since` still runs."""
    try:
        # Its second field is a name in parentheses, which may hold anything.
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, PermissionError, ProcessLookupError):
        return _answers(pid)
    state, ticks = fields[0], int(fields[19])
    if state in ("Z", "X"):  # It has ended, and its parent has not asked for its exit code.
        return False
    return _boot_time() + ticks / os.sysconf("SC_CLK_TCK") <= since.timestamp() + _CLOCK_SLACK


def _boot_time() -> float:
    lines = (_PROC / "stat").read_text().splitlines()
    return float(next(line for line in lines if line.startswith("btime ")).split()[1])


def _answers(pid: int) -> bool:
    """Where /proc does not show it: it has ended, or it is another user's and `hidepid` hides it."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
