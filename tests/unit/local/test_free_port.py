"""The ports that a bare control plane takes."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.envtest.process import free_port


def test_no_outgoing_connection_is_given_a_free_port_before_a_program_listens_there() -> None:
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports = {free_port() for _ in range(20)}
    assert max(ports) < first
    assert len(ports) > 1, "two that ask at the same time would meet"


def test_a_port_that_one_process_was_given_is_given_to_no_other_while_that_one_lives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before anything listens there."""
    code = "from tests.envtest.process import free_port; print(free_port(), flush=True); input()"
    with subprocess.Popen(
        (sys.executable, "-c", code), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout
        taken = int(other.stdout.readline())
        drawn = (taken, *range(taken + 1, taken + 100))
        monkeypatch.setattr(random, "sample", lambda *_, **__: drawn)
        assert free_port() != taken
        other.communicate("\n")
