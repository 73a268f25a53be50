"""Which test executes which lines of the product, recorded by coverage.py.

With `-p tests.executed` pytest records it, each worker of pytest-xdist in a file of its own. `record` starts
such a run, and `Executed` reads what came of it.
"""

import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import coverage
import pytest

from tests import length

# Names the file, and the patterns of paths, that a run records.
_DATA: Final = "MUSTER_COVERAGE"
_OF: Final = "MUSTER_COVERAGE_OF"
_recording: coverage.Coverage | None = None


def record(checkout: Path, tests: Sequence[str], *, of: Iterable[str], data: Path) -> None:
    """Run the tests once, those of `make test`, and write into `data` which lines each executes: also where
    one fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        recorded = {_DATA: f"{folder}/{data.name}", _OF: os.pathsep.join(of)}
        subprocess.run(
            (*(sys.executable, "-m", "pytest", "-q", "--tb=short", "-n", "2", "-p", __name__), *tests),
            cwd=checkout,
            env={**os.environ, **recorded, "PYTHONPATH": str(checkout), length.VARIABLE: length.SHORT},
            check=False,
        )
        coverage.Coverage(data, config_file=False).combine([folder])


class Executed:
    """What `record` has written."""

    def __init__(self, data: Path) -> None:
        recorded = coverage.CoverageData(str(data))
        recorded.read()
        self._recorded_at = data.stat().st_mtime
        self._lines = {path: recorded.contexts_by_lineno(path) for path in recorded.measured_files()}
        # How many lines a test executes: what executes few is quick, and says more.
        self.breadth = Counter(
            test for lines in self._lines.values() for tests in lines.values() for test in tests
        )

    def newer(self, files: Iterable[str], checkout: Path) -> list[str]:
        """Files of tests that have changed since: nothing is known of them."""
        return sorted(name for name in files if (checkout / name).stat().st_mtime > self._recorded_at)

    def tests(self, path: str, lines: Iterable[int]) -> set[str]:
        executed = self._lines.get(path, {})
        return {test for line in lines for test in executed.get(line, ()) if test}


def pytest_configure() -> None:
    global _recording
    _recording = coverage.Coverage(
        os.environ[_DATA], data_suffix=True, include=os.environ[_OF].split(os.pathsep), config_file=False
    )
    _recording.set_option("run:relative_files", True)
    _recording.start()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    assert _recording
    _recording.switch_context(item.nodeid)
    result = yield
    _recording.switch_context("")
    return result


def pytest_unconfigure() -> None:
    assert _recording
    _recording.stop()
    _recording.save()
