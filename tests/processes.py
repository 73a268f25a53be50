"""Processes that are no children of the test."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def children(pid: int) -> list[int]:
    """Those of all threads of a process."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


def end_within(seconds: float, pids: Iterable[int]) -> bool:
    """Whether all of them have ended by then."""
    end = time.monotonic() + seconds
    while any(map(_is_alive, pids)):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def _is_alive(pid: int) -> bool:
    """Whether it still runs; a zombie whose parent is gone does not."""
    with suppress(OSError):
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    return False
