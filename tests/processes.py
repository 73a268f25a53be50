"""Processes that are no children of the test."""

from pathlib import Path


def children(pid: int) -> list[int]:
    """Those of all threads of a process."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


def has_ended(pid: int) -> bool:
    """Also a zombie, whose parent has not read its exit code."""
    try:
        return "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True
