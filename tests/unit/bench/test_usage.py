"""What is read from the kernel about a process."""

import os
import subprocess
import sys

import pytest

from bench.gangs.usage import Wire, usage

_BEFORE = """\
ESTAB 0 0 127.0.0.1:40000 127.0.0.1:6443 users:(("kueue",pid=7,fd=9))
\t cubic wscale:7,7 rto:204 bytes_sent:100 bytes_acked:90 bytes_received:1000 segs_out:5
"""
_LATER = """\
ESTAB 0 0 127.0.0.1:40000 127.0.0.1:6443 users:(("kueue",pid=7,fd=9))
\t cubic wscale:7,7 rto:204 bytes_sent:150 bytes_acked:150 bytes_received:1500 segs_out:9
ESTAB 0 0 127.0.0.1:40002 127.0.0.1:6443 users:(("python",pid=8,fd=4))
\t cubic bytes_sent:20 bytes_received:30
LISTEN 0 4096 127.0.0.1:6443 0.0.0.0:* users:(("kube-apiserver",pid=9,fd=3))
\t cubic cwnd:10
"""


def test_traffic_counts_from_the_begin_and_a_closed_socket_keeps_what_it_had() -> None:
    wire = Wire()
    wire.begin(_BEFORE)
    wire.look(_LATER)
    wire.look("")
    assert (wire.of(7), wire.of(8), wire.of(9)) == (550, 50, 0)


def test_a_process_that_has_ended_is_named() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(ProcessLookupError, match=f"process {ended.pid} has ended"):
        usage(ended.pid)
    ended.wait()
