"""A tutorial, typed: each command of a page runs, and each line that the page shows is printed."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.unit.docs.blocks import ROOT, Block, blocks

_NEXT: Final = "=== next"


def type_page(page: str, *, folder: Path, environment: Mapping[str, str], timeout: float) -> None:
    """Run the commands of a page of docs/ in one shell in `folder`, within `timeout` seconds, but for those
    marked as not run. Raises AssertionError where a command fails, or a line is not printed by the commands
    before it.
    """
    typed = [block for block in blocks(ROOT / "docs" / page) if not _is_left_out(block)]
    script = "\n".join(f"{block.text}echo '{_NEXT}'" for block in typed if block.language == "sh")
    ran = subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=folder,
        env={**_outside_ci(), **_author(), "HOME": str(folder), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    printed = iter(ran.stdout.split(f"{_NEXT}\n"))
    shown = ""
    for block in typed:
        if block.language == "sh":
            shown = next(printed)
        else:
            assert [line for line in block.text.splitlines() if line not in shown] == [], shown


def _is_left_out(block: Block) -> bool:
    return block.mark is not None and block.mark.word == "not run"


def _outside_ci() -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CI", "GITHUB_"))}
    return {**kept, "PATH": path}


def _author() -> dict[str, str]:
    return {
        f"GIT_{who}_{what}": "me@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
