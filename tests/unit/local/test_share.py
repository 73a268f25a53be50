"""What waits for answers computes before what only computes."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.local.cluster import share


@pytest.fixture
def leader() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True
    )
    yield process
    process.communicate(b"\n")


def test_a_patient_session_computes_later(leader: subprocess.Popen[bytes]) -> None:
    share.give_session(leader.pid, 10)

    assert os.getpriority(os.PRIO_PROCESS, leader.pid) == 10
    session = Path(f"/proc/{leader.pid}/autogroup")
    assert not session.exists() or session.read_text().endswith("nice 10\n")


def test_a_session_that_has_ended_is_no_error() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""], start_new_session=True)
    process.wait()

    share.give_session(process.pid, share.FIRST)
