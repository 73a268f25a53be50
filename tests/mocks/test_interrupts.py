"""A program that the engine interrupts says nothing and leaves nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import PATIENCE

_PROGRAM = """
import os, shutil, signal, sys
from functools import partial
from components import interrupts
interrupts.go_quietly()
interrupts.at_the_end(partial(shutil.rmtree, sys.argv[1]))
if sys.argv[2] == "interrupted":
    os.kill(os.getpid(), signal.SIGINT)
"""


@pytest.mark.parametrize(("how", "code"), [("interrupted", 130), ("done", 0)])
def test_it_tidies_up_and_goes_without_a_word(tmp_path: Path, how: str, code: int) -> None:
    folder = tmp_path / "overlay"
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(folder), how], capture_output=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (code, b"", b"")
    assert not folder.exists()
