"""The failed tests of a run, short enough to stand under everything else: who reads a log reads its end."""

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_TESTS: Final = 5
_LINES: Final = 12
_WIDTH: Final = 200


def told(report: Path) -> list[str]:
    """Lines about the failed tests in a JUnit file of pytest, at most five of them; [] where none failed.

    A run that was killed has left no file, or half of one; that is told too.
    """
    try:
        # pytest wrote it a moment ago.
        cases = list(ET.parse(report).getroot().iter("testcase"))  # noqa: S314
    except (OSError, ET.ParseError) as error:
        return [f"no report of its tests: {error}"]
    failed = [(case, text) for case in cases for text in _failures(case)]
    lines = []
    for case, text in failed[:_TESTS]:
        lines += [f"{case.get('classname')}::{case.get('name')}"[:_WIDTH], *_end(text)]
    if len(failed) > _TESTS:
        lines.append(f"and {len(failed) - _TESTS} more")
    return lines


def _failures(case: ET.Element) -> Iterator[str]:
    for kind in ("failure", "error"):
        for found in case.iter(kind):
            yield found.text or found.get("message") or ""


def _end(text: str) -> list[str]:
    """The last lines of a traceback, and before them those that pytest marks as the error itself."""
    lines = [line for line in text.splitlines() if line.strip()]
    head, tail = lines[:-_LINES], lines[-_LINES:]
    marked = [line for line in head if line.startswith("E  ")][:_LINES]
    return [f"    {line[:_WIDTH]}" for line in (*marked, *tail)]
