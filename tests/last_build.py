"""The last build whose components took no Args, for tests that go from its state to this build's."""

import io
import subprocess
import tarfile
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parent.parent
COMMIT: Final = "182c199"


def last_build(folder: Path) -> Path:
    """Its files in `folder`, with this checkout's Python. Skips the test where the history is shorter."""
    command = ["git", "archive", "--format=tar", COMMIT]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"the history of this checkout does not reach {COMMIT}")
    with tarfile.open(fileobj=io.BytesIO(made.stdout)) as archive:
        archive.extractall(folder, filter="data")
    (folder / ".venv").symlink_to(ROOT / ".venv")
    return folder
