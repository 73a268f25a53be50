"""A bare control plane leaves nothing behind, however its caller ends."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import built
from tests.processes import has_ended
from tests.waiting import PATIENCE, eventually

# A shell's background command begins with SIGINT ignored.
_CALLER = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from pathlib import Path
from tests import envtest as bare
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
    caller.wait(PATIENCE)
    eventually("nothing is left", lambda: all(map(has_ended, children)))
