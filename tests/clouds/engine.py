"""The real `pulumi` on a program, with stand-ins for the clouds behind it.

Each workspace has a state, a home and a passphrase of its own. What a run did is read from the engine's own
event log, not from what it prints.
"""

import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests import built

ROOT: Final = Path(__file__).resolve().parent.parent.parent
# Nobody waits for it but on a machine that does much else.
_TIMEOUT = 900.0
# What the program is made of: everything but its stacks, which the engine writes to.
_PROGRAM: Final = (*("Pulumi.yaml", "__main__.py", ".venv"), *("components", "muster", "policies"))
# What a provider that nobody changed does; the rest of an event's operations is news.
_QUIET: Final = frozenset({"same", "read", "refresh"})


@dataclass(frozen=True, slots=True)
class Step:
    """One operation of the engine: `op` is create, update, replace, delete, refresh, ..."""

    op: str
    type: str
    name: str
    inputs: Mapping[str, Any] = field(default_factory=dict)
    paths: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """What one command did. `output` is what a person saw."""

    code: int
    output: str
    steps: tuple[Step, ...]
    seconds: float

    @property
    def changes(self) -> list[Step]:
        return [step for step in self.steps if step.op not in _QUIET and not step.type.startswith("pulumi:")]

    def of(self, type_: str) -> list[Step]:
        return [step for step in self.changes if step.type == type_]


@dataclass(slots=True)
class Workspace:
    """A Pulumi project in `project`, a stack in it, its configuration and everything around it."""

    folder: Path
    project: Path
    stack: str
    environment: dict[str, str]
    runs: list[Run] = field(default_factory=list)

    def up(self, *extra: str, fails: bool = False) -> Run:
        return self.run("up", "--yes", "--skip-preview", *extra, fails=fails)

    def preview(self, *extra: str, fails: bool = False) -> Run:
        return self.run("preview", *extra, fails=fails)

    def refresh(self, *extra: str) -> Run:
        return self.run("refresh", "--yes", "--skip-preview", *extra)

    def destroy(self, *extra: str, fails: bool = False) -> Run:
        return self.run("destroy", "--yes", "--skip-preview", *extra, fails=fails)

    def run(self, *arguments: str, fails: bool = False) -> Run:
        """AssertionError with the whole output when it ends otherwise than expected."""
        process, events, begun = self._started(*arguments)
        output, _ = process.communicate(timeout=_TIMEOUT)
        run = self._ended(process, output, events, begun)
        print(f"$ pulumi {shlex.join(arguments)}\n{run.output}\n[{run.seconds:.1f} s]", flush=True)
        assert (run.code != 0) is fails, f"pulumi {arguments[0]}: exit code {run.code}\n{run.output[-6000:]}"
        return run

    def interrupted(self, *arguments: str, when: Any, number: signal.Signals) -> Run:
        """A run that gets a signal as soon as `when()` holds."""
        process, events, begun = self._started(*arguments)
        deadline = time.monotonic() + _TIMEOUT
        while not when() and process.poll() is None:
            assert time.monotonic() < deadline, "what the interruption waits for never came"
            time.sleep(0.02)
        # The engine's plugins and the program are in its group and get what a terminal would send them.
        os.killpg(process.pid, number)
        output, _ = process.communicate(timeout=_TIMEOUT)
        return self._ended(process, output, events, begun)

    def cli(self, *arguments: str) -> str:
        """A command that is no update, for its output."""
        done = subprocess.run(
            ["pulumi", *arguments, "--non-interactive"],
            cwd=self.project,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=False,
        )
        assert done.returncode == 0, f"pulumi {arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def state(self) -> list[dict[str, Any]]:
        """The resources of the stack's state."""
        return list(self._deployment().get("resources") or [])

    @property
    def state_file(self) -> Path:
        """Where its backend keeps the state."""
        (file,) = (self.folder / "state").rglob(f"stacks/*/{self.stack}.json")
        return file

    def pending(self) -> list[dict[str, Any]]:
        """The resources whose creation began and never ended, as far as the state knows."""
        found = self._deployment().get("pending_operations") or []
        return [each["resource"] for each in found if each["type"] == "creating"]

    def _deployment(self) -> dict[str, Any]:
        exported = json.loads(self.cli("stack", "export", "--stack", self.stack, "--show-secrets"))
        return dict(exported["deployment"])

    def _started(self, *arguments: str) -> tuple[subprocess.Popen[str], Path, float]:
        events = self.folder / f"events-{len(self.runs)}.json"
        command = ["pulumi", *arguments, "--stack", self.stack, "--non-interactive", "--color=never"]
        process = subprocess.Popen(
            [*command, f"--event-log={events}"],
            cwd=self.project,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        return process, events, time.monotonic()

    def _ended(self, process: subprocess.Popen[str], output: str, events: Path, begun: float) -> Run:
        run = Run(process.returncode, output, _steps(events), time.monotonic() - begun)
        self.runs.append(run)
        return run


def checkout(folder: Path, stack: Path) -> Path:
    """The project itself, with one stack file of its own."""
    (folder / "stacks").mkdir(parents=True)
    for name in _PROGRAM:
        (folder / name).symlink_to(ROOT / name)
    (folder / "stacks" / stack.name).write_text(stack.read_text())
    return folder


def workspace(folder: Path, project: Path, stack: str, environment: Mapping[str, str]) -> Workspace:
    """A new stack of the project, with the engine's own things in `folder`."""
    (folder / "state").mkdir(parents=True)
    made = Workspace(
        folder,
        project,
        stack,
        {
            **os.environ,
            "PATH": f"{built.tools()}:{os.environ.get('PATH', '')}",
            "PULUMI_BACKEND_URL": (folder / "state").as_uri(),
            "PULUMI_HOME": str(folder / "home"),
            "PULUMI_CONFIG_PASSPHRASE": "",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            # --event-log is behind it.
            "PULUMI_DEBUG_COMMANDS": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            **environment,
        },
    )
    made.cli("stack", "init", stack)
    return made


def _steps(events: Path) -> tuple[Step, ...]:
    if not events.exists():
        return ()
    lines = [json.loads(line) for line in events.read_text().splitlines() if line.strip()]
    return tuple(
        _step(event["resourcePreEvent"]["metadata"]) for event in lines if "resourcePreEvent" in event
    )


def _step(metadata: Mapping[str, Any]) -> Step:
    detailed = metadata.get("detailedDiff") or {}
    return Step(
        op=metadata["op"],
        type=metadata["type"],
        name=metadata["urn"].rpartition("::")[2],
        inputs=(metadata.get("new") or {}).get("inputs") or {},
        paths=tuple(detailed),
        replaces=tuple(path for path, each in detailed.items() if "replace" in each["diffKind"]),
    )
