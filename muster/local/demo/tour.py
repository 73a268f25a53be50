"""The main job from nothing to a finished gang: what `make up` runs.

Brings the local plane up, applies stack `local` with the real Pulumi engine,
tells the gang story on it, and prints the three times and where to look next.
Each step is a command that a user could type; nothing here does more than that.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Final

_LOCALPLANE: Final = (sys.executable, "-m", "muster.local")


class Stopped(Exception):
    """A step failed; its own output has said why."""

    def __init__(self, step: str, code: int) -> None:
        super().__init__(f"{step} ended with exit code {code}")
        self.code = code


def tour(plane: str) -> None:
    """Builds, boots, deploys, runs; raises `Stopped` at the first step that fails."""
    local = (*_LOCALPLANE, "--plane", plane)
    _step("build", [*local, "build"], os.environ)
    booted = _step("plane", [*local, "up"], os.environ)
    environment = {**os.environ, **_environment(local)}
    _heading("pulumi up --stack local")
    _step("stack", ["pulumi", "stack", "select", "--create", "local"], environment)
    deployed = _step(
        "pulumi up", ["pulumi", "up", "--stack", "local", "--yes", "--skip-preview"], environment
    )
    _heading("the gang story")
    told = _step("story", [sys.executable, "-m", "muster.local.demo", "gang"], environment)
    print(f"\nplane ready in {booted:.0f} s, pulumi up in {deployed:.0f} s, gang story in {told:.0f} s")
    is_usual = plane == "default"
    of_command, of_make = ("", "") if is_usual else (f"--plane {plane} ", f" PLANE={plane}")
    print(_LOOK_AROUND.format(plane=of_command, make=of_make))


_LOOK_AROUND: Final = """\

Look around:
  eval "$(.venv/bin/muster local {plane}env)"
  kubectl get nodes
  kubectl get clusterqueues,cohorts,resourceflavors
  kubectl get rayjobs,workloads,provisioningrequests --all-namespaces
  .venv/bin/muster local story priority
  .venv/bin/muster local {plane}fault h100 stock-out --for 5m
  .venv/bin/muster local {plane}status
  make down{make}"""


def _step(name: str, command: Sequence[str], environment: os._Environ[str] | dict[str, str]) -> float:
    """Runs one command with its output in view; its seconds."""
    begun = time.monotonic()
    code = subprocess.run(command, env=dict(environment), check=False).returncode
    if code != 0:
        raise Stopped(name, code)
    return time.monotonic() - begun


def _environment(local: Sequence[str]) -> dict[str, str]:
    """What `muster local env` prints, without a shell in between."""
    lines = subprocess.run([*local, "env"], check=True, capture_output=True, text=True).stdout
    words = (shlex.split(line)[1] for line in lines.splitlines())
    return dict(word.split("=", 1) for word in words)


def _heading(text: str) -> None:
    print(f"\n{text}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="muster local demo", description=__doc__)
    parser.add_argument("--plane", default="default", help="which local plane (default: default)")
    try:
        tour(parser.parse_args().plane)
    except Stopped as stopped:
        print(f"make up: {stopped}", file=sys.stderr)
        return stopped.code if stopped.code > 0 else 1
    except KeyboardInterrupt:
        print("make up: interrupted; the plane stays as it is: make status, make down", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
