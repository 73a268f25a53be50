"""What the build of the site checks of its search (docs/.site/checks.py)."""

import importlib.util
import logging
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from tests.unit.docs.blocks import ROOT


@pytest.fixture(scope="module")
def checks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("checks", ROOT / "docs" / ".site" / "checks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def section(location: str, title: str, text: str) -> dict[str, str]:
    return {"location": location, "title": title, "text": text}


def test_a_page_named_by_a_word_comes_before_one_that_has_it(checks: ModuleType) -> None:
    index = [
        section("a.html#x", "Prices", "<p>Costs, costs, and what costs more.</p>"),
        section("b.html", "Costs", "<p>An hour.</p>"),
        section("c.html", "Costs of a job on Friday", "<p>cost</p>"),
        section("d.html", "Gangs", "<p>nothing</p>"),
    ]
    assert checks.best_pages("cost", index) == ["b.html", "c.html", "a.html"]
    assert checks.best_pages("submit a job", index) == []


def test_a_wrong_first_answer_is_a_warning(
    checks: ModuleType, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "search").mkdir()
    index = '{"docs": [{"location": "x.html", "title": "Docker", "text": ""}]}'
    (tmp_path / "search" / "search_index.json").write_text(index, encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        checks.on_post_build(config=SimpleNamespace(site_dir=str(tmp_path)))
    assert "the search for 'docker' finds x.html first, not faq.html." in caplog.messages
    assert "the search for 'cost' finds no page first, not costs.html." in caplog.messages


@pytest.mark.parametrize(
    ("name", "is_searched"),
    [("decisions/001-resource-grain.md", False), ("licences.md", False), ("costs.md", True)],
)
def test_decisions_and_licences_are_not_searched(checks: ModuleType, name: str, *, is_searched: bool) -> None:
    file = SimpleNamespace(src_uri=name, abs_src_path=str(ROOT / "docs" / name))
    page = SimpleNamespace(file=file, meta={})
    checks.on_page_markdown("# A", page=page, config=SimpleNamespace(docs_dir=str(ROOT / "docs")))
    assert ("search" not in page.meta) == is_searched
