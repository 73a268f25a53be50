"""After Ctrl-C or a kill during `pulumi up`, the next `pulumi up` is not refused. With the real engine."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from muster.local import LocalClusterError
from muster.local.demo.tour import free_stack
from muster.local.pulumi_locks import locks_of
from tests.clouds.engine import ROOT, Workspace, workspace
from tests.waiting import PATIENCE, eventually

# One step of `make up`.
_STEP = """
import os, signal, sys
from muster.errors import MusterError
from muster.local.demo.tour import run_step
# As a terminal has it: a shell's background jobs ignore SIGINT, and so would their children.
signal.signal(signal.SIGINT, signal.default_int_handler)
command = ["pulumi", "up", "--stack", "local", "--yes", "--skip-preview"]
try:
    run_step("pulumi up", command, os.environ, resume="again")
except MusterError as error:
    sys.exit(f"{error}")
"""


@pytest.fixture
def made(tmp_path: Path) -> Workspace:
    environment = {
        "HELD_RUNS": str(tmp_path / "runs"),
        "HELD_UNTIL": str(tmp_path / "until"),
        "PYTHONPATH": str(ROOT),
    }
    return workspace(tmp_path / "engine", Path(__file__).parent / "interrupted", "local", environment)


def _begun(made: Workspace, *command: str) -> subprocess.Popen[str]:
    """A command that updates the stack, in a process group of its own, as soon as the update runs."""
    process = subprocess.Popen(
        command,
        cwd=made.project,
        env=made.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    eventually("the update runs", Path(made.environment["HELD_RUNS"]).exists)
    return process


def _converges(made: Workspace) -> None:
    Path(made.environment["HELD_UNTIL"]).touch()
    made.up()


def test_ctrl_c_during_make_up_leaves_no_lock_and_the_next_up_goes_on(made: Workspace) -> None:
    process = _begun(made, sys.executable, "-c", _STEP)
    state = made.folder / "state"
    assert locks_of(state, stack="local")
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=PATIENCE)
    assert "^C received; cancelling" in output
    assert "received; terminating" not in output
    assert "pulumi up was interrupted. Fix: again" in output
    assert locks_of(state, stack="local") == []
    _converges(made)


def test_a_lock_of_a_killed_update_is_removed_and_that_of_a_running_one_is_not(made: Workspace) -> None:
    process = _begun(made, "pulumi", "up", "--stack", "local", "--yes", "--skip-preview")
    state = made.folder / "state"
    with pytest.raises(LocalClusterError, match=f"locked by process {process.pid} of"):
        free_stack(state, named=())
    process.kill()
    # The engine's plugins and the program go with the workspace's file.
    Path(made.environment["HELD_UNTIL"]).touch()
    process.wait(PATIENCE)
    assert "pulumi cancel" in made.up(fails=True).output
    free_stack(state, named=())
    _converges(made)
