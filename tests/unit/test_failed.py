"""The end of a long run says which tests failed and why, and no more than somebody reads."""

import subprocess
import sys
from pathlib import Path

from tests import failed


def _report(tests: str, folder: Path) -> Path:
    (folder / "test_these.py").write_text(tests)
    report = folder / "tests.xml"
    plain = ("-p", "no:xdist", "-p", "no:hypothesispytest", "-p", "no:asyncio", "--rootdir", str(folder))
    command = (sys.executable, "-m", "pytest", "-q", str(folder), *plain, f"--junitxml={report}")
    subprocess.run(command, cwd=folder, capture_output=True, check=False)
    return report


def test_a_failure_is_told_with_its_error_and_its_place(tmp_path: Path) -> None:
    text = (
        "def test_it():\n    gained = 3\n    assert gained == 4, 'a GPU too few'\n\ndef test_that(): pass\n"
    )
    lines = failed.told(_report(text, tmp_path))
    assert lines[0] == "test_these::test_it"
    assert any("E       AssertionError: a GPU too few" in line for line in lines)
    assert "test_these.py:3: AssertionError" in lines[-1]
    assert not any("test_that" in line for line in lines)


def test_an_error_far_above_the_end_of_its_traceback_is_not_lost(tmp_path: Path) -> None:
    text = "def test_it():\n    assert 1 == 2, '\\n'.join(map(str, range(99)))\n"
    lines = failed.told(_report(text, tmp_path))
    assert any("AssertionError: 0" in line for line in lines)
    assert len(lines) < 30


def test_a_run_that_left_no_report_says_so(tmp_path: Path) -> None:
    (line,) = failed.told(tmp_path / "none.xml")
    assert line.startswith("no report of its tests")


def test_nothing_is_told_where_all_passed(tmp_path: Path) -> None:
    assert failed.told(_report("def test_it(): pass\n", tmp_path)) == []
