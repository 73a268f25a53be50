"""A registry for the tests of images and charts."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="package")
def registry_host() -> Iterator[str]:
    """The real thing, on loopback, in memory."""
    argv = [sys.executable, "-m", "muster", "local", "build", "--only", "registry"]
    made = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    assert made.returncode == 0, made.stderr
    program = next(line for line in made.stdout.splitlines() if line.startswith("program: "))
    process = subprocess.Popen([program.removeprefix("program: ")], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait(PATIENCE)
