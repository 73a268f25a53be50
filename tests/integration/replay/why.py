"""`muster why` asked about a recording."""

import contextlib
import io
import json
from pathlib import Path
from typing import Any

from muster.cli import main


def why(world: tuple[Path, Path], *asked: str) -> dict[str, Any]:
    """What it prints as JSON, of ten futures. `world`: a stack file and a recording."""
    stack, recording = world
    buffer = io.BytesIO()
    text = io.TextIOWrapper(buffer, write_through=True)
    with contextlib.redirect_stdout(text):
        arguments = ["--stack", str(stack), "--replay", str(recording), "--runs", "10", "--json"]
        assert main(["why", *asked, *arguments]) == 0
    found: dict[str, Any] = json.loads(buffer.getvalue())
    return found
