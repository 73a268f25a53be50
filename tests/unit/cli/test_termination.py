"""Ctrl-C and SIGTERM end what plays at once, with exit code 130, one line, and no process left behind."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from muster.cli import main
from muster.errors import ExitCode
from muster.paths import stack_file
from tests.processes import has_ended
from tests.waiting import PATIENCE, eventually

ROOT: Final = Path(__file__).resolve().parents[3]
STACK: Final = str(stack_file("local", start=ROOT))
_PLAYER: Final = """\
#!/bin/sh
echo $$ >> "${0%/*}/playing"
exec sleep 600
"""
# A real player decides within seconds. This one never does.
_PROGRAM: Final = """
import sys
from pathlib import Path
from muster.local.builder import everything
everything.ensure = lambda **_: ({"kueue-player": Path(sys.argv[1])}, {})
from muster.cli import main
sys.exit(main(sys.argv[2:]))
"""
_JOB: Final = """
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: "example.com/a:1", resources: {limits: {cpu: 1, memory: 1Gi}}}]
"""
_COMMANDS: Final = {
    "diff": ["diff", STACK, "--base", "{base}", "--replay", "{recording}"],
    "plan": ["plan", STACK, "--recording", "{recording}", "--goal", "p95(all) < 15m"],
    "what-if": ["what-if", STACK, "--base", "{base}", "--synthetic", "2+2"],
    "why": [
        *("why", "-f", "{job}", "--team", "team-a", "--stack", STACK),
        *("--replay", "{recording}", "--no-alternatives"),
    ],
}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    jobs, recording, player = tmp_path / "jobs.csv", tmp_path / "jobs.jsonl", tmp_path / "player"
    jobs.write_text("submitted,team,cpu,duration\n0,team-a,1,3600\n9,team-a,1,3600\n")
    assert main(["record", "import", str(jobs), "--out", str(recording), "--quiet"]) == 0
    player.write_text(_PLAYER)
    player.chmod(0o755)
    base = tmp_path / "Pulumi.local.yaml"
    base.write_text(Path(STACK).read_text().replace("weight: 2", "weight: 3"))
    (tmp_path / "job.yaml").write_text(_JOB)
    return {
        "base": str(base),
        "recording": str(recording),
        "player": str(player),
        "job": str(tmp_path / "job.yaml"),
    }


@pytest.fixture
def started(files: dict[str, str], name: str) -> Iterator[subprocess.Popen[str]]:
    """The command, in a group of its own as a shell would start it."""
    arguments = [each.format(**files) for each in _COMMANDS[name]]
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, files["player"], *arguments],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    ) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("name", _COMMANDS)
@pytest.mark.parametrize("how", ["Ctrl-C", "SIGTERM", "SIGTERM in another thread"])
def test_a_command_that_plays_ends_with_its_players(
    how: str, name: str, files: dict[str, str], started: subprocess.Popen[str]
) -> None:
    playing = Path(files["player"]).with_name("playing")
    while not (playing.exists() and playing.read_text().endswith("\n")):
        assert started.poll() is None, started.communicate()
        time.sleep(0.02)
    # In another thread it interrupts no wait of the main thread, as one that comes just before the wait.
    if how == "Ctrl-C":
        os.killpg(started.pid, signal.SIGINT)
    else:
        threads = sorted(int(each.name) for each in Path(f"/proc/{started.pid}/task").iterdir())
        thread = threads[0 if how == "SIGTERM" else -1]
        assert ctypes.CDLL(None).tgkill(started.pid, thread, signal.SIGTERM) == 0
    started.wait(PATIENCE)
    assert started.returncode == ExitCode.INTERRUPTED
    assert started.stderr is not None
    # The other side of a comparison may still say something.
    assert "Error: interrupted." in started.stderr.read().splitlines()
    eventually("no player is left", lambda: all(map(has_ended, map(int, playing.read_text().split()))))
