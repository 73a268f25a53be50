"""python -m tests.budget [--short] SUITE... [--beside SUITE...]...: run suites, and print the time of each,
with the CPU time of all its processes.

The suites run one after another. Those after each `--beside` do too, beside
the others, once `build` has passed: most suites wait more than they compute.
Their output is printed when they end.
`--short` leaves out what length.py says, and suites of which nothing is left.

The budget is a figure to look at, not an assertion: machines differ. The exit
code is 0 when every suite passed, 1 when one failed; all of them run, and the
end of the output repeats what failed.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from muster.local.cluster import share
from tests import failed, length

ROOT: Final = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Suite:
    """A named list of commands. `budget` in seconds on two cores with a warm cache, within `make test-all`;
    `short` within `make test`.
    """

    name: str
    budget: int
    short: int
    commands: tuple[tuple[str, ...], ...]
    is_patient: bool = False
    """It only computes: what waits for answers beside it goes first."""

    @property
    def folders(self) -> tuple[str, ...]:
        """Where its tests are; () where it has none."""
        return tuple(word for command in self.commands for word in command if word.startswith("tests/"))


@dataclass(frozen=True, slots=True)
class Result:
    suite: Suite
    seconds: float
    cpu: float
    """Seconds of CPU of its commands and of the processes that they waited for."""
    complaints: tuple[str, ...]
    """Lines about what failed; () where all passed."""


_PYTEST: Final = (sys.executable, "-m", "pytest")
# The nice value of suites that only compute.
_PATIENT: Final = 10


def _pytest(folder: str, *extra: str) -> tuple[str, ...]:
    return (*_PYTEST, "-q", f"tests/{folder}", *extra)


def _build(*names: str) -> tuple[str, ...]:
    return (*_PYTHON, "muster", "local", "build", *(word for name in names for word in ("--only", name)))


_PYTHON: Final = (sys.executable, "-m")
_LOCAL: Final = "tests/integration/local"
_KUBEFLOW: Final = ("trainer", "training-operator", "mpi-operator")
# Suites without property tests: they need not load the plugin, and with it all of hypothesis.
_PLAIN: Final = ("-p", "no:hypothesispytest")
SUITES: Final = {
    suite.name: suite
    for suite in (
        Suite(
            "check",
            60,
            60,
            (
                (*_PYTHON, "ruff", "format", "--check", "--quiet", "."),
                (*_PYTHON, "ruff", "check", "--quiet", "."),
                (*_PYTHON, "mypy", "__main__.py"),
                (
                    *_PYTHON,
                    "mypy",
                    *(word for root in ("muster", "bench", "release", "tests") for word in ("-p", root)),
                ),
                (str(Path(sys.executable).with_name("lint-imports")), "--no-cache"),
                ("env", "NO_MKDOCS_2_WARNING=1", *_PYTHON, "mkdocs", "build", "--strict"),
            ),
        ),
        # The same examples at every run: what fails here is the change's own doing. Whoever calls pytest
        # plainly gets new ones each time, and so looks for what nobody has thought of.
        Suite(
            "unit",
            300,
            760,
            (_pytest("unit", "tests/kai", "-n", "2", "--hypothesis-seed=0"),),
            is_patient=True,
        ),
        Suite("mocks", 70, 70, (_pytest("mocks", *_PLAIN),), is_patient=True),
        # Each preview waits for processes to start more than it computes.
        Suite("policies", 90, 100, (_pytest("policies", "-n", "4", *_PLAIN),)),
        Suite("browser", 40, 40, (_pytest("browser", *_PLAIN),)),
        Suite(
            "build",
            60,
            35,
            (
                (*_PYTHON, "muster", "local", "build"),
                # No local cluster needs them. Programs in Pulumi YAML are tested with the first.
                _build("pulumi-language-yaml", "kueue-player", "jobset", "lws", "kuberay-validator"),
            ),
        ),
        # Only the long tests of integration need it.
        Suite(
            "kubeflow",
            600,
            0,
            (_build(*_KUBEFLOW),),
        ),
        # By folder: what a folder shares, it starts once.
        Suite(
            "integration",
            1100,
            370,
            (
                _pytest(
                    *("integration", "-n", "2", "--dist=loadscope", "--hypothesis-seed=0"),
                    f"--ignore={_LOCAL}",
                ),
            ),
        ),
        # It compares the machine before and after: no other local cluster may start or stop meanwhile.
        Suite("local", 130, 0, (_pytest("integration/local", *_PLAIN),)),
        Suite("faults", 240, 125, (_pytest("faults", "-n", "2", *_PLAIN),)),
        # One at a time: the first few tests apply whole stacks, which both workers take turns at.
        Suite("clouds", 660, 185, (_pytest("clouds", "-n", "2", "--maxschedchunk=1", *_PLAIN),)),
        # On demand (`make test-karpenter`): no other suite needs its program, which takes minutes to compile.
        Suite(
            "karpenter",
            900,
            900,
            (_build("karpenter"), _pytest("karpenter", *_PLAIN)),
        ),
        # Its programs take minutes to compile, too. It runs after `local`, because it starts a local cluster.
        Suite(
            "kai",
            3600,
            3600,
            (
                _build("kai", "kai-player", "karpenter", *_KUBEFLOW),
                ("env", "MUSTER_KAI=1", *_pytest("integration/real_kai", f"{_LOCAL}/test_kai.py")),
            ),
        ),
        Suite("e2e", 1450, 590, (_pytest("e2e", "--maxfail=3", "--durations=0", *_PLAIN),)),
    )
}


@dataclass(slots=True)
class Runner:
    """Runs suites, each command in its own process. After `interrupt` nothing starts."""

    results: list[Result] = field(default_factory=list)
    _running: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _interrupted: bool = False

    def run(self, suites: Sequence[Suite], *, output: int | None = None) -> None:
        """Runs the suites in their order. `output`: a file descriptor, or None for this process's own."""
        for suite in suites:
            if self._interrupted:
                return
            _write(output, f"\n== {suite.name}\n")
            self.results.append(self._suite(suite, output))

    def interrupt(self) -> None:
        """Interrupts every running command once and waits for it: it removes what it has started."""
        self._interrupted = True
        with self._lock:
            running = tuple(self._running)
        for process in running:
            process.send_signal(signal.SIGINT)
        for process in running:
            process.wait()

    def _suite(self, suite: Suite, output: int | None) -> Result:
        begun, cpu = time.monotonic(), 0.0
        complaints: list[str] = []
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder, "tests.xml")
            for command in suite.commands:
                tests = command[: len(_PYTEST)] == _PYTEST
                shown = (*command, f"--junitxml={report}") if tests else command
                code, used = self._command(shown, output, is_patient=suite.is_patient)
                cpu += used
                if code != 0:
                    complaints.append(f"{' '.join(command[1:])}: exit code {code}")
                    _write(output, f"{complaints[-1]}\n")
                    complaints += failed.told(report) if tests else []
        return Result(suite, time.monotonic() - begun, cpu, tuple(complaints))

    def _command(self, command: Sequence[str], output: int | None, *, is_patient: bool) -> tuple[int, float]:
        """The exit code, and seconds of CPU."""
        with self._lock:
            if self._interrupted:
                return 130, 0.0
            # A terminal interrupts its whole process group; in a session of its own, only `interrupt` does.
            process = subprocess.Popen(
                command, cwd=ROOT, stdout=output, stderr=output, start_new_session=True
            )
            self._running.append(process)
        if is_patient:
            share.give_session(process.pid, _PATIENT)
        try:
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode, used.ru_utime + used.ru_stime
        except ChildProcessError:
            return process.wait(), 0.0  # `interrupt` saw its end first.
        finally:
            with self._lock:
                self._running.remove(process)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.budget", description=__doc__)
    parser.add_argument("suites", nargs="+", choices=sorted(SUITES), metavar="SUITE")
    parser.add_argument(
        "--beside", nargs="+", action="append", choices=sorted(SUITES), metavar="SUITE", default=[]
    )
    parser.add_argument("--short", action="store_true", help="what `make test` runs")
    arguments = parser.parse_args()
    if arguments.short:
        os.environ[length.VARIABLE] = length.SHORT
    return run(not_empty(arguments.suites), beside=[not_empty(names) for names in arguments.beside])


def not_empty(names: Iterable[str]) -> list[Suite]:
    """The suites of which this run leaves something to do."""
    suites = [SUITES[name] for name in names]
    if length.is_short():
        return [suite for suite in suites if not suite.folders or not all(map(length.is_long, suite.folders))]
    return suites


def run(suites: Sequence[Suite], *, beside: Sequence[Sequence[Suite]] = ()) -> int:
    """Run the suites, with each row of others beside them, print their times and what failed, and return the
    exit code.
    """
    # A shell starts what runs in the background with interrupts ignored, and so would the tests of Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # The suites start Python thousands of times. Without bytecode each start compiles what it imports of us,
    # which is a sixth of a preview.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    runner = Runner()
    try:
        _run(runner, suites, beside)
    except KeyboardInterrupt:
        runner.interrupt()
        raise
    _tell(runner.results)
    return 1 if any(result.complaints for result in runner.results) else 0


def _run(runner: Runner, suites: Sequence[Suite], beside: Sequence[Sequence[Suite]]) -> None:
    before = next((place + 1 for place, suite in enumerate(suites) if suite.name == "build"), 0)
    runner.run(suites[:before])
    if before and not any(result.complaints for result in runner.results if result.suite.name == "build"):
        # What a later suite misses is a failure from here on and no reason to skip (tests/built.py).
        os.environ["MUSTER_BUILT"] = "1"
    with ExitStack() as stack:
        logs = [stack.enter_context(tempfile.TemporaryFile()) for _ in beside]
        rows = [
            threading.Thread(target=runner.run, args=(row,), kwargs={"output": log.fileno()}, daemon=True)
            for row, log in zip(beside, logs, strict=True)
        ]
        for row in rows:
            row.start()
        try:
            runner.run(suites[before:])
        except KeyboardInterrupt:
            runner.interrupt()
            for row in rows:  # They end before their logs are closed.
                row.join()
            raise
        for row, log in zip(rows, logs, strict=True):
            row.join()
            log.seek(0)
            sys.stdout.buffer.write(log.read())
            sys.stdout.buffer.flush()


def _write(output: int | None, text: str) -> None:
    if output is None:
        print(text, end="", flush=True)
    else:
        os.write(output, text.encode())


def _tell(results: list[Result]) -> None:
    """What failed comes last: of a long log, often no more than the end is shown."""
    print(f"\n{'suite':12} {'seconds':>8} {'budget':>8} {'CPU':>8}  result")
    for result in results:
        outcome = "FAILED" if result.complaints else "passed"
        budget = result.suite.short if length.is_short() else result.suite.budget
        print(f"{result.suite.name:12} {result.seconds:8.0f} {budget:8} {result.cpu:8.0f}  {outcome}")
    for result in results:
        if result.complaints:
            print(f"\n== {result.suite.name} failed", *result.complaints, sep="\n")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
