"""The reliability report is what the recorded runs say."""

from pathlib import Path

import pytest

from bench import recorded_runs, reliability
from tests.budget import ROOT

_PAGE = ROOT / "docs" / "reliability.md"
_MOST_WORDS = 1_200


def test_the_published_report_is_made_of_the_recorded_runs() -> None:
    text = _PAGE.read_text(encoding="utf-8")
    assert text == reliability.report(), "run: python -m bench.reliability docs/reliability.md"
    words = [word for word in text.split() if word.strip("|#-")]
    assert len(words) <= _MOST_WORDS
    for file in recorded_runs.FOLDER.glob("*/*.json"):
        run = recorded_runs.load(file)
        assert run.build, f"{file}: of which commit?"
        assert f"| `{run.command}` | {run.build} | {run.day} |" in text


def test_a_mistake_that_the_search_does_not_notice_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    release = tmp_path / "unreleased"
    release.mkdir()
    for name in ("search.json", "virtual-days.json"):
        (release / name).write_bytes((recorded_runs.FOLDER / "unreleased" / name).read_bytes())
    monkeypatch.setattr(reliability, "FOLDER", tmp_path)
    recorded_runs.record(release / "planted.json", {"a": "BROKEN", "b": "", "c": None})
    text = reliability.report()
    assert "Of 3 mistakes in the decision code, the search notices 1" in text
    assert "Not noticed: `b`." in text
    assert "Not searched: `c`." in text
    (release / "search.json").unlink()
    with pytest.raises(ValueError, match=r"search\.json is missing\. Fix: run the program with `--record"):
        reliability.report()
