"""Each of the faults that such a controller has to survive is tried by a test that exists."""

import ast
import re
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[3]
_PAGE = _ROOT / "docs" / "faults.md"
_ROW = re.compile(r"^\| (\d+) \| .* \| (.*) \|$", re.MULTILINE)
_FAULTS = 35


def _catalogue() -> dict[int, list[str]]:
    """Number of the fault -> path::test of each that tries it."""
    rows = _ROW.findall(_PAGE.read_text(encoding="utf-8"))
    return {int(number): tests.split(", ") for number, tests in rows}


def test_the_table_has_every_fault_once_and_in_order() -> None:
    assert list(_catalogue()) == list(range(1, _FAULTS + 1))


@pytest.mark.parametrize("number", range(1, _FAULTS + 1))
def test_a_fault_is_tried_by_tests_that_exist(number: int) -> None:
    for named in _catalogue()[number]:
        path, _, test = named.partition("::")
        assert test in _tests(_ROOT / path), f"fault {number}: {named}"


def test_every_test_of_the_fault_suite_that_meets_a_plane_is_in_the_table_or_is_about_the_suite() -> None:
    named = {test for tests in _catalogue().values() for test in tests}
    about_the_suite = {
        "tests/faults/test_seeds.py",
        "tests/faults/test_kills.py",
        "tests/faults/test_poison.py",
    }
    for file in sorted((_ROOT / "tests" / "faults").glob("test_*.py")):
        path = str(file.relative_to(_ROOT))
        missing = {f"{path}::{test}" for test in _tests(file)} - named
        assert not missing or path in about_the_suite


def _tests(path: Path) -> set[str]:
    body = ast.parse(path.read_text(encoding="utf-8")).body
    functions = (each for each in body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
    return {each.name for each in functions if each.name.startswith("test_")}
