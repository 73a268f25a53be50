"""Suites run in their order, other rows beside them, and an interrupt ends all of them cleanly."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests import length
from tests.budget import ROOT, SUITES, Runner, Suite, not_empty
from tests.waiting import eventually

# Writes a file, and on an interrupt another one: as a suite that removes its cluster.
_WAITS = """
import pathlib, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
pathlib.Path(sys.argv[1]).touch()
try:
    time.sleep(600)
except KeyboardInterrupt:
    pathlib.Path(sys.argv[2]).touch()
    sys.exit(1)
"""


def _suite(name: str, *arguments: str) -> Suite:
    return Suite(name, 1, 1, ((sys.executable, "-c", *arguments),))


def test_a_failed_suite_does_not_keep_the_next_from_running(tmp_path: Path) -> None:
    runner = Runner()
    with (tmp_path / "log").open("wb") as log:
        runner.run([_suite("first", "exit(3)"), _suite("second", "print('here')")], output=log.fileno())
    assert [(result.suite.name, bool(result.complaints)) for result in runner.results] == [
        ("first", True),
        ("second", False),
    ]
    assert "exit code 3" in runner.results[0].complaints[0]
    assert all(result.cpu > 0 for result in runner.results)
    assert "== second\nhere" in (tmp_path / "log").read_text()


def test_an_interrupt_ends_both_lanes_and_lets_them_clean_up(tmp_path: Path) -> None:
    runner = Runner()
    lanes = []
    for name in ("one", "other"):
        suites = [
            _suite(name, _WAITS, str(tmp_path / f"{name}-begun"), str(tmp_path / f"{name}-cleaned")),
            _suite(
                "after", "import pathlib, sys; pathlib.Path(sys.argv[1]).touch()", str(tmp_path / "after")
            ),
        ]
        lanes.append(threading.Thread(target=runner.run, args=(suites,)))
        lanes[-1].start()
    for name in ("one", "other"):
        eventually(f"{name} runs", (tmp_path / f"{name}-begun").exists)
    runner.interrupt()
    for lane in lanes:
        lane.join()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "one-begun",
        "one-cleaned",
        "other-begun",
        "other-cleaned",
    ]


def test_a_short_run_leaves_out_suites_of_which_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(length.VARIABLE, raising=False)
    assert [suite.name for suite in not_empty(SUITES)] == list(SUITES)
    monkeypatch.setenv(length.VARIABLE, length.SHORT)
    left = {suite.name for suite in not_empty(SUITES)}
    assert {"check", "unit", "integration", "e2e"} <= left
    assert "local" not in left


def test_a_short_run_takes_neither_the_files_nor_the_cases_that_are_long(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    for name in ("conftest.py", "length.py"):
        (tmp_path / "tests" / name).write_bytes((ROOT / "tests" / name).read_bytes())
    (tmp_path / "tests" / "long.toml").write_text(
        '"tests/test_slow.py" = "minutes"\n"tests/test_some.py::test_of[two]" = "minutes"\n'
    )
    (tmp_path / "tests" / "test_slow.py").write_text("raise NotImplementedError\n")
    (tmp_path / "tests" / "test_some.py").write_text(
        "import pytest\n\n\n@pytest.mark.parametrize('case', ['one', 'two'])\ndef test_of(case): pass\n"
    )
    command = (sys.executable, "-m", "pytest", "-v", "tests", "-p", "no:hypothesispytest", "-p", "no:asyncio")
    environment = {**os.environ, length.VARIABLE: length.SHORT, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        (*command, "--import-mode=importlib", "--rootdir=."),
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "test_of[one] PASSED" in done.stdout, done.stdout
    assert "1 passed, 1 deselected" in done.stdout


@pytest.mark.parametrize("long", length.long_tests())
def test_what_a_short_run_leaves_out_is_there(long: str) -> None:
    path, _, case = long.partition("::")
    assert (ROOT / path).exists()
    assert not case or f"def {case.partition('[')[0]}(" in (ROOT / path).read_text(encoding="utf-8")
