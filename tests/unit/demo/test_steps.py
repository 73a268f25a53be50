"""Ctrl-C during a step: its command gets the signal once and ends by itself."""

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from muster.local.demo.tour import OWN_JOB, run_step
from muster.paths import IMPORT_ROOT
from tests.waiting import PATIENCE, eventually

# A command that counts interrupts in a file and ends a while after the first, like an engine that waits for
# its operations; {after} seconds. A quarter of a second is what subprocess.run gives it.
COMMAND = """
import pathlib, signal, sys, time
log = pathlib.Path(sys.argv[1])
count = 0
def note(*_):
    global count
    count += 1
    log.write_text(f"interrupted {{count}}")
signal.signal(signal.SIGINT, note)
signal.signal(signal.SIGTERM, lambda *_: sys.exit("SIGTERM"))
log.write_text("running")
while not count:
    time.sleep(0.02)
time.sleep({after})
log.write_text(f"ended after {{count}}")
"""
STEP = """
import os, sys
from muster.errors import MusterError
from muster.local.demo import tour
tour.GRACE, tour.LAST_GRACE = {grace}, 0.5
try:
    command = [sys.executable, "-c", sys.argv[2], sys.argv[1]]
    print(tour.run_step("it", command, os.environ, resume="go on"))
except MusterError as error:
    print(error)
    sys.exit(int(error.exit_code))
"""


def start(
    log: Path, *, after: float = 1.0, grace: float = 60.0, stdin: int = subprocess.DEVNULL
) -> subprocess.Popen[str]:
    """The step in a process of its own, whose group is its own, once its command runs."""
    process = subprocess.Popen(
        [sys.executable, "-c", STEP.format(grace=grace), str(log), COMMAND.format(after=after)],
        stdin=stdin,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(IMPORT_ROOT)},
    )
    eventually("the command runs", lambda: log.exists() and log.read_text() == "running")
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("send", [os.kill, os.killpg])
def test_an_interrupted_command_gets_one_interrupt_and_ends_by_itself(
    number: int, send: Callable[[int, int], None], tmp_path: Path
) -> None:
    log = tmp_path / "log"
    process = start(log)
    send(process.pid, number)
    output, _ = process.communicate(timeout=PATIENCE)
    assert log.read_text() == "ended after 1"
    assert process.returncode == 130
    assert output == "it was interrupted. Fix: go on\n"


def test_ctrl_c_on_a_terminal_reaches_the_command_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    pid, terminal = pty.fork()
    if pid == 0:
        environment = {**os.environ, "PYTHONPATH": str(IMPORT_ROOT)}
        command = [sys.executable, "-c", STEP.format(grace=60.0), str(log), COMMAND.format(after=1.0)]
        os.execve(sys.executable, command, environment)  # noqa: S606 - the child of pty.fork
    eventually("the command runs", lambda: log.exists() and log.read_text() == "running")
    os.write(terminal, b"\x03")
    _, status = os.waitpid(pid, 0)
    assert log.read_text() == "ended after 1"
    assert os.waitstatus_to_exitcode(status) == 130
    os.close(terminal)


def test_a_command_that_does_not_end_is_interrupted_again_and_then_killed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = start(log, after=600.0, grace=0.5)
    os.kill(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=PATIENCE)
    assert log.read_text() == "interrupted 2"
    assert process.returncode == 130
    assert "was interrupted and killed, because it did not end" in output


@pytest.mark.parametrize("code", [0, 1, 255])
def test_a_command_that_ends_by_itself_returns_its_code(code: int) -> None:
    command = [sys.executable, "-c", f"raise SystemExit({code})"]
    assert run_step("it", command, os.environ, resume="") == code


@pytest.mark.parametrize("example", ["gang", "karpenter"])
def test_the_job_of_one_s_own_is_the_story_s_with_another_name_and_the_cluster_s_image(example: str) -> None:
    command = OWN_JOB.format(example=f"examples/{example}/rayjob.yaml").rstrip("| ")
    environment = {**os.environ, "RAY_IMAGE": "muster.local/ray@sha256:1"}
    done = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True, check=True)
    job = yaml.safe_load(done.stdout)
    assert job["metadata"]["name"] == "mine"
    assert "RAY_IMAGE" not in done.stdout.partition("spec:")[2]
    head = job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
    assert head["containers"][0]["image"] == "muster.local/ray@sha256:1"
    assert head["volumes"] == [{"name": "program", "configMap": {"name": "gang-train"}}]
