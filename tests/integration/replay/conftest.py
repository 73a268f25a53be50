"""The program that replays Kueue: built before, or these tests have nothing to ask."""

from pathlib import Path

import pytest

from muster.replay.player import PROGRAM
from tests import built


@pytest.fixture(scope="session")
def program() -> Path:
    return built.program(PROGRAM) or built.absent(PROGRAM, build=f"muster local build --only {PROGRAM}")
