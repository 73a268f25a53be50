"""The support table shows what the matrix has recorded, and the page on conformance what its data says."""

from pathlib import Path

from tests.matrix import conformance
from tests.matrix.page import page
from tests.matrix.results import load

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "support.md"


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


def test_every_kubernetes_that_a_stack_may_name_was_run() -> None:
    assert not [row for row in page().splitlines() if "rendered only" in row or "not recorded" in row]


def test_the_page_on_conformance_is_current() -> None:
    written = PAGE.with_name("ai-conformance.md").read_text(encoding="utf-8")
    assert written == conformance.page(), (
        "write it anew: python -m tests.matrix.conformance docs/reference/ai-conformance.md"
    )


def test_each_requirement_of_the_checklist_has_a_test_that_exists_or_a_reason() -> None:
    """The number of requirements is that of the checklist that was read."""
    requirements = conformance.load()
    assert len({each.id for each in requirements}) == 15
    for each in requirements:
        assert each.tests or each.missing, each.id
        for file, _, function in (test.partition("::") for test in each.tests):
            assert f"def {function}(" in (ROOT / file).read_text(encoding="utf-8")
