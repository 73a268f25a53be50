"""From nothing to a finished gang: what `make up` runs.

Starts the local cluster, applies its stack with the real Pulumi engine, runs an example on it, and prints the
three times and where to look next. Each step is a command that a user could type.
"""

from __future__ import annotations

import math
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from muster.errors import ExitCode, MusterError
from muster.local import LocalClusterError
from muster.local.demo.scenarios import STORIES
from muster.local.karpenter import Autoscaler
from muster.local.preflight import require_linux
from muster.local.pulumi_locks import PulumiLock, locks_of
from muster.model.stack import Scheduler

# Runs one command as a step and lets it end by itself after Ctrl-C.
# `subprocess.run` kills its child a quarter of a second after Ctrl-C. A `pulumi` that is killed leaves its
# lock, a state without the resources that it was making, and Helm releases that the next run cannot install.

GRACE: Final = 120.0
"""Seconds that an interrupted command has to finish and record what it has begun."""
LAST_GRACE: Final = 10.0
"""Seconds after a second interrupt, on which `pulumi` waits for nothing more and removes its lock."""
_INTERRUPTS: Final = frozenset({signal.SIGINT, signal.SIGTERM})
# si_code of a signal that the kernel sent, as it does for Ctrl-C on a terminal (sigaction(2)).
_FROM_KERNEL: Final = 128
_LONGEST_WAIT: Final = 3600.0


class InterruptedStepError(MusterError):
    """The user interrupted a step, and its command has ended."""

    default_exit_code = ExitCode.INTERRUPTED

    def __init__(self, step: str, *, is_killed: bool, resume: str) -> None:
        how = f" and killed, because it did not end within {GRACE + LAST_GRACE:.0f} s" if is_killed else ""
        super().__init__(f"{step} was interrupted{how}.", fix=resume)


def run_step(step: str, command: Sequence[str], environment: Mapping[str, str], *, resume: str) -> int:
    """Run a command with its output in view; its exit code.

    SIGINT and SIGTERM interrupt the command, which then has GRACE seconds to end; after that
    InterruptedStepError is raised with `resume`, what to do next.
    """
    heeded = {number for number in _INTERRUPTS if signal.getsignal(number) is not signal.SIG_IGN}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, heeded | {signal.SIGCHLD})
    try:
        child = _Child(_started(command, environment, before), is_ours_alone=not sys.stdin.isatty())
        child.wait(heeded)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if child.interrupts:
        raise InterruptedStepError(step, is_killed=child.is_killed, resume=resume)
    return child.process.returncode


def _started(
    command: Sequence[str], environment: Mapping[str, str], mask: set[int | signal.Signals]
) -> subprocess.Popen[bytes]:
    """Start the command with the signal mask `mask`.

    On a terminal it stays in our process group: it reads keys, and Ctrl-C reaches it directly. Elsewhere a
    signal to our group must not reach it beside the one that we send: a second one stops `pulumi` at once.
    """
    return subprocess.Popen(
        command,
        env=dict(environment),
        process_group=None if sys.stdin.isatty() else 0,
        preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, mask),
    )


@dataclass(slots=True)
class _Child:
    """`is_ours_alone`: no signal reaches it but ours."""

    process: subprocess.Popen[bytes]
    is_ours_alone: bool
    interrupts: int = 0
    is_killed: bool = False

    def wait(self, heeded: set[signal.Signals]) -> None:
        """Until it has ended. The signals of `heeded` and SIGCHLD have to be blocked."""
        deadline = math.inf
        while self.process.poll() is None:
            remaining = max(0.0, min(deadline - time.monotonic(), _LONGEST_WAIT))
            received = signal.sigtimedwait(heeded | {signal.SIGCHLD}, remaining)
            if received is None and time.monotonic() >= deadline:
                self._press()
                deadline = time.monotonic() + LAST_GRACE
            elif received is not None and received.si_signo in heeded:
                is_sent = not self.is_ours_alone and received.si_code == _FROM_KERNEL
                self._interrupt(is_sent=is_sent)
                deadline = min(deadline, time.monotonic() + GRACE)

    def _interrupt(self, *, is_sent: bool) -> None:
        self.interrupts += 1
        if not is_sent:
            self.process.send_signal(signal.SIGINT)

    def _press(self) -> None:
        """Its time is over: interrupt it once more, then kill it."""
        if self.interrupts > 1:
            self.is_killed = True
            self.process.kill()
        else:
            self._interrupt(is_sent=False)


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
    pool: str
    """One that the cloud can run out of."""
    example: str
    """The file of the story's job, from which a job of one's own is made."""


def tour(
    name: str,
    *,
    programs: str | None = None,
    scheduler: Scheduler,
    autoscaler: Autoscaler = Autoscaler.SIMULATED,
    story: str | None = None,
) -> None:
    """Build, boot, deploy, run. Raises StepError at the first step that fails, and MusterError for a story of
    another stack.
    """
    require_linux()
    chosen = _TOURS_OF.get(scheduler, _TOURS[autoscaler])
    chosen = _with_story(chosen, story) if story else chosen
    named = ("--name", name)
    source = ("--programs", programs) if programs else ()
    _step("build", [*_MUSTER, "local", "build", *source], os.environ)
    options = ("--scheduler", str(scheduler), "--autoscaler", str(autoscaler))
    up = [*_MUSTER, "local", "up", *named, *source, *options]
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
    look = chosen.look.format(name=of_command)
    print(
        _LOOK_AROUND.format(
            look=look,
            pool=chosen.pool,
            own=OWN_JOB.format(example=chosen.example),
            name=of_command,
            make=of_make,
        )
    )


def _with_story(chosen: Tour, story: str) -> Tour:
    playable = [name for name, each in STORIES.items() if each.stack == chosen.stack]
    if story not in playable:
        raise MusterError(
            f"story {story} is not for stack {chosen.stack}.", fix=f"choose one of {', '.join(playable)}."
        )
    return replace(chosen, story=story)


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


OWN_JOB: Final = 'sed "s|RAY_IMAGE|$RAY_IMAGE|; s|name: gang$|name: mine|" {example} |'
_LOOK_AROUND: Final = """\

Look around:
  eval "$(.venv/bin/muster local env{name})"
  kubectl get nodes
{look}
  .venv/bin/muster local fault {pool} stock-out --for 5m{name}
  .venv/bin/muster local status{name}
  .venv/bin/muster top

A job of your own, and what it waits for until it has finished:
  {own}
    .venv/bin/muster submit - --team team-a

  make down{make}"""
_TOURS: Final = {
    Autoscaler.SIMULATED: Tour(
        "local",
        "gang",
        """\
  kubectl get clusterqueues,cohorts,resourceflavors
  kubectl get rayjobs,workloads,provisioningrequests --all-namespaces
  .venv/bin/muster local story priority{name}""",
        "h100",
        "examples/gang/rayjob.yaml",
    ),
    Autoscaler.KARPENTER: Tour(
        "local-karpenter",
        "karpenter",
        """\
  kubectl get clusterqueues,cohorts,resourceflavors
  kubectl get rayjobs,workloads --all-namespaces
  kubectl get nodepools,nodeclaims
  .venv/bin/muster local logs karpenter{name}
  .venv/bin/muster local capacity h100 2{name}""",
        "h100",
        "examples/karpenter/rayjob.yaml",
    ),
}
# Whatever the autoscaler.
_TOURS_OF: Final = {
    Scheduler.KAI: Tour(
        "local-kai",
        "kai",
        """\
  kubectl get queues,schedulingshards
  kubectl get rayclusters,podgroups,provisioningrequests --all-namespaces
  .venv/bin/muster local logs kai-scheduler@default{name}""",
        "l4",
        "examples/kai/raycluster.yaml",
    )
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
