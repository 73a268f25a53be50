"""From nothing to a finished gang: what `make up` runs.

Starts the local cluster, applies stack `local` with the real Pulumi engine, runs the gang example on it, and
prints the three times and where to look next. Each step is a command that a user could type.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from muster.errors import ExitCode, MusterError
from muster.local.demo.steps import run_step
from muster.local.errors import LocalClusterError
from muster.local.preflight import require_linux
from muster.local.pulumi_locks import PulumiLock, locks_of

_MUSTER: Final = (sys.executable, "-m", "muster")
_STACK: Final = "local"
_STATE: Final = "`muster local status` shows whether the local cluster runs."
_RESUME: Final = f"run the same command again to continue. {_STATE}"


class StepError(MusterError):
    """A step failed; its own output has the cause. The exit code of another program means nothing here."""

    def __init__(self, step: str, code: int, *, is_ours: bool) -> None:
        super().__init__(
            f"{step} ended with exit code {code}.",
            fix=f"see its output above. {_STATE}",
            exit_code=ExitCode(code) if is_ours and code in set(ExitCode) else ExitCode.OUTSIDE,
        )


def tour(name: str, *, programs: str | None = None) -> None:
    """Build, boot, deploy, run. Raises StepError at the first step that fails."""
    require_linux()
    named = ("--name", name)
    source = ("--programs", programs) if programs else ()
    _step("build", [*_MUSTER, "local", "build", *source], os.environ)
    booted = _step("local cluster", [*_MUSTER, "local", "up", *named, *source], os.environ)
    environment = {**os.environ, **_environment(named)}
    _heading(f"pulumi up --stack {_STACK}")
    free_stack(Path(urlsplit(environment["PULUMI_BACKEND_URL"]).path), named=named)
    _step("stack", ["pulumi", "stack", "select", "--create", _STACK], environment)
    deployed = _step("pulumi up", ["pulumi", "up", "--stack", _STACK, "--yes", "--skip-preview"], environment)
    _heading("the gang story")
    played = _step("story", [*_MUSTER, "local", "story", "gang"], environment)
    deploy = f"local cluster ready in {booted:.0f} s, pulumi up in {deployed:.0f} s"
    print(f"\n{deploy}, gang story in {played:.0f} s")
    of_command, of_make = ("", "") if name == "default" else (f" --name {name}", f" PLANE={name}")
    print(_LOOK_AROUND.format(name=of_command, make=of_make))


def free_stack(backend: Path, *, named: Sequence[str]) -> None:
    """Remove the locks that a `pulumi` on this machine left when it was killed.

    Raises LocalClusterError for the lock of another process: its update may still be running.
    """
    for lock in locks_of(backend, stack=_STACK):
        if not lock.is_left_over:
            raise _locked(lock, named)
        lock.path.unlink(missing_ok=True)
        print(f"removed a lock that was left over, because its process has ended: {lock}", flush=True)


def _locked(lock: PulumiLock, named: Sequence[str]) -> LocalClusterError:
    environment = shlex.join(["muster", "local", "env", *named])
    cancel = f'`eval "$({environment})" && pulumi cancel --stack {_STACK}`, which removes the lock'
    if lock.is_local:
        fix = f"wait until that update has ended, or interrupt it; if it hangs, end it and run {cancel}"
    else:
        fix = f"that process cannot be seen from here: make sure that it has ended, then run {cancel}"
    return LocalClusterError(f"stack {_STACK}", f"is locked by {lock}", fix=fix)


_LOOK_AROUND: Final = """\

Look around:
  eval "$(.venv/bin/muster local env{name})"
  kubectl get nodes
  kubectl get clusterqueues,cohorts,resourceflavors
  kubectl get rayjobs,workloads,provisioningrequests --all-namespaces
  .venv/bin/muster local story priority
  .venv/bin/muster local fault h100 stock-out --for 5m{name}
  .venv/bin/muster local status{name}
  make down{make}"""


def _step(name: str, command: Sequence[str], environment: Mapping[str, str]) -> float:
    """Run one command with its output in view; returns its seconds."""
    begun = time.monotonic()
    code = run_step(name, command, environment, resume=_RESUME)
    if code != 0:
        raise StepError(name, code, is_ours=tuple(command[: len(_MUSTER)]) == _MUSTER)
    return time.monotonic() - begun


def _environment(named: Sequence[str]) -> dict[str, str]:
    """What `muster local env` prints, without a shell in between."""
    lines = subprocess.run(
        [*_MUSTER, "local", "env", *named], check=True, capture_output=True, text=True
    ).stdout
    words = (shlex.split(line)[1] for line in lines.splitlines())
    return dict(word.split("=", 1) for word in words)


def _heading(text: str) -> None:
    print(f"\n{text}", flush=True)
