"""The layout of the repository: its folders, and that all that ships is the one package `muster`."""

import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
PYTHON_FOLDERS: Final = {"muster", "components", "policies", "tests", "bench", "release", "examples"}
LINKS: Final = {
    "muster/components": "../components",
    "muster/policies": "../policies",
    "muster/LICENSE": "../LICENSE",
    "muster/local/demo/examples": "../../../examples",
}
# The engine starts the first as a program, and only its own folder is on `sys.path` then.
# The provider's program looks for the Python that has Muster, before it can import anything.
LOCATE_THEMSELVES: Final = {"policies/__main__.py", "components/provider/__main__.py", "muster/paths.py"}
DATA_BESIDE_THE_MODULE: Final = re.compile(r"Path\(__file__\)(\.resolve\(\))?\.parent(?!\.parent|s)\b")


def tracked(*patterns: str) -> list[str]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=True).stdout
    return [name for name in found.split("\0") if name and (ROOT / name).exists()]


@pytest.mark.parametrize(("link", "target"), LINKS.items())
def test_what_ships_from_the_top_is_linked_into_the_package(link: str, target: str) -> None:
    command = ["git", "ls-files", "-s", "--", link]
    recorded = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=True
    ).stdout
    assert recorded.split()[0] == "120000"
    assert (ROOT / link).readlink() == Path(target)
    assert (ROOT / link).exists()


def test_top_level_has_at_most_ten_visible_folders() -> None:
    folders = {name.split("/")[0] for name in tracked() if "/" in name and not name.startswith(".")}
    assert len(folders) <= 10, sorted(folders)


def test_python_is_in_its_folders_and_nowhere_else() -> None:
    elsewhere = {name for name in tracked("*.py") if name.split("/")[0] not in PYTHON_FOLDERS}
    # MkDocs loads its hooks from a file, beside the pages.
    assert elsewhere == {"__main__.py", "docs/.site/checks.py"}


def test_only_the_policy_pack_changes_the_import_path() -> None:
    changes = re.compile(r"\bsys\.path(\[\d+\] =|\.(insert|append|extend)\()")
    found = {
        name
        for name in tracked("*.py")
        if not name.startswith("tests/") and changes.search((ROOT / name).read_text(encoding="utf-8"))
    }
    assert found == {"policies/__main__.py"}


def test_no_module_looks_for_the_checkout_by_its_own_path() -> None:
    for name in tracked("muster/*.py", "components/*.py", "policies/*.py"):
        if name in LOCATE_THEMSELVES:
            continue
        for line in (ROOT / name).read_text(encoding="utf-8").splitlines():
            if "__file__" in line:
                assert DATA_BESIDE_THE_MODULE.search(line), (
                    f"{name}: {line.strip()}\nUse muster.paths, or read a file beside the module."
                )
