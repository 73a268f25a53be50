"""Each measured figure of the documentation is in a record, and no record has changed unnoticed."""

import shutil
from pathlib import Path

import pytest

from release.evidence import RECORDS, ROOT, load_records, measured_pages, missing_evidence


def test_the_documentation_has_no_figure_without_a_record() -> None:
    assert list(missing_evidence()) == []


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    records, _ = load_records()
    files = [RECORDS, *(each.file for each in records)]
    files += [page.relative_to(ROOT).as_posix() for page in measured_pages()]
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def _replace(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def test_a_figure_that_was_changed_by_hand_is_found(checkout: Path) -> None:
    _replace(checkout / "docs/bench/index.md", "13.5 s", "913.5 s")
    assert list(missing_evidence(checkout)) == [
        f"docs/bench/index.md: 913.5 s is in no record. Fix: name the file that has it in {RECORDS}."
    ]


def test_a_record_that_was_changed_or_removed_is_found(checkout: Path) -> None:
    _replace(checkout / "bench/results/replay.md", "635 of 641", "641 of 641")
    (checkout / "bench/results/virtual-days.md").unlink()
    changed, removed, *_ = missing_evidence(checkout)
    assert changed.startswith("bench/results/replay.md: has changed.")
    assert removed.startswith("bench/results/virtual-days.md: is not there.")


def test_a_derived_figure_that_no_page_has_is_found(checkout: Path) -> None:
    _replace(checkout / "README.md", "364 s with", "much longer with")
    assert list(missing_evidence(checkout)) == [
        f"README.md: 364 s is not there any more. Fix: remove it from {RECORDS}."
    ]


def test_a_record_without_a_commit_is_found(checkout: Path) -> None:
    _replace(checkout / RECORDS, 'commits = ["470e0a96"]', "commits = []")
    assert [each for each in missing_evidence(checkout) if "names no commit" in each]
