"""python -m tests.budget SUITE...: runs suites one after another and prints what each took of its budget.

The budget is a number to look at, not an assertion: machines differ. The exit
code is 0 when every suite passed, 1 when one failed; all of them run, and what
failed is told once more at the very end.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests import failed

ROOT: Final = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Suite:
    """A named list of commands; `budget` in seconds on two cores with a warm cache."""

    name: str
    budget: int
    commands: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Result:
    suite: Suite
    seconds: float
    complaints: tuple[str, ...]
    """Lines about what failed; () where all passed."""


_PYTEST: Final = (sys.executable, "-m", "pytest")


def _pytest(folder: str, *extra: str) -> tuple[str, ...]:
    return (*_PYTEST, "-q", f"tests/{folder}", *extra)


_PYTHON: Final = (sys.executable, "-m")
# Suites without property tests: they need not load the plugin, and with it all of hypothesis.
_PLAIN: Final = ("-p", "no:hypothesispytest")
SUITES: Final = {
    suite.name: suite
    for suite in (
        Suite(
            "check",
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
        Suite("unit", 120, (_pytest("unit", "tests/kai", "-n", "2", "--hypothesis-seed=0"),)),
        Suite("mocks", 60, (_pytest("mocks", *_PLAIN),)),
        # Each preview waits for processes to start more than it computes.
        Suite("policies", 90, (_pytest("policies", "-n", "4", *_PLAIN),)),
        Suite("browser", 40, (_pytest("browser", *_PLAIN),)),
        Suite(
            "build",
            2400,
            (
                (*_PYTHON, "muster", "local", "build"),
                # No local cluster needs it: programs in Pulumi YAML are tested with it.
                (*_PYTHON, "muster", "local", "build", "--only", "pulumi-language-yaml"),
                (*_PYTHON, "muster", "local", "build", "--only", "kueue-player"),
            ),
        ),
        Suite("integration", 720, (_pytest("integration", "--hypothesis-seed=0"),)),
        Suite("faults", 180, (_pytest("faults", "-n", "2", *_PLAIN),)),
        # One at a time: the first few tests apply whole stacks, which both workers take turns at.
        Suite("clouds", 480, (_pytest("clouds", "-n", "2", "--maxschedchunk=1", *_PLAIN),)),
        # On demand (`make test-karpenter`): no other suite needs its program, which takes minutes to compile.
        Suite(
            "karpenter",
            300,
            (
                (*_PYTHON, "muster", "local", "build", "--only", "karpenter"),
                _pytest("karpenter", *_PLAIN),
            ),
        ),
        Suite("e2e", 1500, (_pytest("e2e", "--maxfail=3", "--durations=0", *_PLAIN),)),
    )
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.budget", description=__doc__)
    parser.add_argument("suites", nargs="+", choices=sorted(SUITES), metavar="SUITE")
    chosen = [SUITES[name] for name in parser.parse_args().suites]
    # A shell starts what runs in the background with interrupts ignored, and so would the tests of Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    results = []
    for suite in chosen:
        result = _run(suite)
        results.append(result)
        if suite.name == "build" and not result.complaints:
            # What a later suite misses is a failure from here on and no reason to skip (tests/built.py).
            os.environ["MUSTER_BUILT"] = "1"
    _tell(results)
    return 1 if any(result.complaints for result in results) else 0


def _run(suite: Suite) -> Result:
    print(f"\n== {suite.name}", flush=True)
    begun = time.monotonic()
    complaints: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "tests.xml")
        for command in suite.commands:
            tests = command[: len(_PYTEST)] == _PYTEST
            code = subprocess.run(
                (*command, f"--junitxml={report}") if tests else command, cwd=ROOT, check=False
            ).returncode
            if code != 0:
                complaints.append(f"{' '.join(command[1:])}: exit code {code}")
                print(complaints[-1], flush=True)
                complaints += failed.told(report) if tests else []
    return Result(suite, time.monotonic() - begun, tuple(complaints))


def _tell(results: list[Result]) -> None:
    """What failed comes last: of a long log, often no more than the end is shown."""
    print(f"\n{'suite':12} {'seconds':>8} {'budget':>8}  result")
    for result in results:
        outcome = "FAILED" if result.complaints else "passed"
        print(f"{result.suite.name:12} {result.seconds:8.0f} {result.suite.budget:8}  {outcome}")
    for result in results:
        if result.complaints:
            print(f"\n== {result.suite.name} failed", *result.complaints, sep="\n")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
