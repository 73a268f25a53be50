"""The support table shows what the matrix has recorded."""

from pathlib import Path

from tests.matrix.page import page
from tests.matrix.results import load

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "support.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), (
        "write it anew: python -m tests.matrix.page docs/reference/support.md"
    )


def test_each_result_is_in_its_row() -> None:
    rows = page().splitlines()
    for result in load():
        (row,) = (each for each in rows if each.startswith(f"| {result.kubernetes} | {result.kueue} |"))
        assert f"{result.passed} passed" in row
        assert all(test.rpartition(".")[2] in page() for test in result.failed)
