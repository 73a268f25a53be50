"""The layout of the repository: its folders, and that all that ships is the one package `muster`."""

import subprocess
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
LINKS: Final = {
    "muster/components": "../components",
    "muster/policies": "../policies",
    "muster/LICENSE": "../LICENSE",
    "muster/local/demo/examples": "../../../examples",
}


@pytest.mark.parametrize(("link", "target"), LINKS.items())
def test_what_ships_from_the_top_is_linked_into_the_package(link: str, target: str) -> None:
    command = ["git", "ls-files", "-s", "--", link]
    recorded = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=True
    ).stdout
    assert recorded.split()[0] == "120000"
    assert (ROOT / link).readlink() == Path(target)
    assert (ROOT / link).exists()
