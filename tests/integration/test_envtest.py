"""A bare control plane leaves nothing behind, however its caller ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests import built

# A shell's background command begins with SIGINT ignored.
_CALLER = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from pathlib import Path
from muster.local import envtest as bare
with bare.control_plane(Path(sys.argv[1]), bare.found(("etcd", "kube-apiserver"), ())) as plane:
    print(plane.server.pid, plane.store.pid, flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_outlives_a_killed_caller(tmp_path: Path, number: signal.Signals) -> None:
    built.programs(("etcd", "kube-apiserver"))
    caller = subprocess.Popen(
        [sys.executable, "-c", _CALLER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert caller.stdout is not None
    children = [int(each) for each in caller.stdout.readline().split()]
    assert len(children) == 2
    caller.send_signal(number)
    caller.wait(30)
    assert _within(30, lambda: not any(map(_is_alive, children)))


def _is_alive(pid: int) -> bool:
    """Whether it still runs; a zombie whose parent is gone does not."""
    with suppress(OSError):
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    return False


def _within(seconds: float, reached: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while not reached():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True
