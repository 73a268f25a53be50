"""From nothing to a finished gang: what `make up` runs.

Starts the local cluster, applies its stack with the real Pulumi engine, runs an example on it, and prints the
three times and where to look next. Each step is a command that a user could type.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from muster.errors import ExitCode, MusterError
from muster.local.autoscalers import Autoscaler
from muster.local.demo.steps import run_step
from muster.local.errors import LocalClusterError
from muster.local.preflight import require_linux
from muster.local.pulumi_locks import PulumiLock, locks_of

_MUSTER: Final = (sys.executable, "-m", "muster")
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


@dataclass(frozen=True, slots=True)
class Tour:
    """What is deployed and played on a local cluster."""

    stack: str
    story: str
    look: str
    """Where to look next: shell lines."""


def tour(name: str, *, programs: str | None = None, autoscaler: Autoscaler = Autoscaler.SIMULATED) -> None:
    """Build, boot, deploy, run. Raises StepError at the first step that fails."""
    require_linux()
    chosen = _TOURS[autoscaler]
    named = ("--name", name)
    source = ("--programs", programs) if programs else ()
    _step("build", [*_MUSTER, "local", "build", *source], os.environ)
    up = [*_MUSTER, "local", "up", *named, *source, "--autoscaler", str(autoscaler)]
    booted = _step("local cluster", up, os.environ)
    environment = {**os.environ, **_environment(named)}
    stack = chosen.stack
    _heading(f"pulumi up --stack {stack}")
    free_stack(Path(urlsplit(environment["PULUMI_BACKEND_URL"]).path), stack=stack, named=named)
    _step("stack", ["pulumi", "stack", "select", "--create", stack], environment)
    deployed = _step("pulumi up", ["pulumi", "up", "--stack", stack, "--yes", "--skip-preview"], environment)
    _heading(f"the {chosen.story} story")
    played = _step("story", [*_MUSTER, "local", "story", chosen.story], environment)
    deploy = f"local cluster ready in {booted:.0f} s, pulumi up in {deployed:.0f} s"
    print(f"\n{deploy}, {chosen.story} story in {played:.0f} s")
    of_command, of_make = ("", "") if name == "default" else (f" --name {name}", f" PLANE={name}")
    print(_LOOK_AROUND.format(look=chosen.look.format(name=of_command), name=of_command, make=of_make))


def free_stack(backend: Path, *, stack: str = "local", named: Sequence[str]) -> None:
    """Remove the locks that a `pulumi` on this machine left when it was killed.

    Raises LocalClusterError for the lock of another process: its update may still be running.
    """
    for lock in locks_of(backend, stack=stack):
        if not lock.is_left_over:
            raise _locked(lock, stack, named)
        lock.path.unlink(missing_ok=True)
        print(f"removed a lock that was left over, because its process has ended: {lock}", flush=True)


def _locked(lock: PulumiLock, stack: str, named: Sequence[str]) -> LocalClusterError:
    environment = shlex.join(["muster", "local", "env", *named])
    cancel = f'`eval "$({environment})" && pulumi cancel --stack {stack}`, which removes the lock'
    if lock.is_local:
        fix = f"wait until that update has ended, or interrupt it; if it hangs, end it and run {cancel}"
    else:
        fix = f"that process cannot be seen from here: make sure that it has ended, then run {cancel}"
    return LocalClusterError(f"stack {stack}", f"is locked by {lock}", fix=fix)


_LOOK_AROUND: Final = """\

Look around:
  eval "$(.venv/bin/muster local env{name})"
  kubectl get nodes
  kubectl get clusterqueues,cohorts,resourceflavors
{look}
  .venv/bin/muster local fault h100 stock-out --for 5m{name}
  .venv/bin/muster local status{name}
  make down{make}"""
_TOURS: Final = {
    Autoscaler.SIMULATED: Tour(
        "local",
        "gang",
        """\
  kubectl get rayjobs,workloads,provisioningrequests --all-namespaces
  .venv/bin/muster local story priority""",
    ),
    Autoscaler.KARPENTER: Tour(
        "local-karpenter",
        "karpenter",
        """\
  kubectl get rayjobs,workloads --all-namespaces
  kubectl get nodepools,nodeclaims
  .venv/bin/muster local logs karpenter{name}
  .venv/bin/muster local capacity h100 2{name}""",
    ),
}


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
