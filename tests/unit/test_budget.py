"""Suites run in their order, a second lane beside them, and an interrupt ends both lanes cleanly."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from tests.budget import Runner, Suite
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
    return Suite(name, 1, ((sys.executable, "-c", *arguments),))


def test_a_failed_suite_does_not_keep_the_next_from_running(tmp_path: Path) -> None:
    runner = Runner()
    with (tmp_path / "log").open("wb") as log:
        runner.run([_suite("first", "exit(3)"), _suite("second", "print('here')")], output=log.fileno())
    assert [(result.suite.name, bool(result.complaints)) for result in runner.results] == [
        ("first", True),
        ("second", False),
    ]
    assert "exit code 3" in runner.results[0].complaints[0]
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
