"""Outside facts carry a source and a day, and old ones stop a release."""

from datetime import date, timedelta
from pathlib import Path

from muster.config.stack import today
from muster.paths import IMPORT_ROOT
from release.facts import OLD_AFTER, PAGES, Fact, facts, links, old_facts, undated_links

DAY = date(2026, 11, 30)


def fact(subject: str, age: timedelta) -> Fact:
    return Fact(read=DAY - age, subject=subject, source=f"https://{subject}", again="open it")


def test_texts_are_found_wherever_they_are_wrapped(tmp_path: Path) -> None:
    for name, text in {
        "muster/a.py": '"""A table.\n\n  Sources: one page and\n  another, read 2026-01-02\n"""\nX = 1\n',
        "muster/b.toml": "# Source: https://example.com/b, read\n# 2026-01-01\n",
        "docs/c.md": "It costs 3 (Source: the list, read 2026-01-03).\n",
        "docs/d.md": "Source: a text without a day.\n\nSome day it was read 2026-01-03.\n",
        "docs/reference/e.md": "Source: a generated page, read 2026-01-04\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    texts = [found for found in facts(tmp_path) if (tmp_path / found.subject).is_file()]
    assert [(found.subject, found.source, found.read) for found in texts] == [
        ("muster/b.toml", "https://example.com/b", date(2026, 1, 1)),
        ("muster/a.py", "one page and another", date(2026, 1, 2)),
        ("docs/c.md", "the list", date(2026, 1, 3)),
    ]


def test_a_link_without_a_day_is_refused_in_code_and_pages(tmp_path: Path) -> None:
    for name, text in {
        "muster/a.py": '"""Of https://a.dev/1."""\nURL = "https://a.dev/api"  # https://a.dev/2\n',
        "muster/b.toml": 'a = "https://b.dev/api"\n# Source: one,\n# https://b.dev/2, read 2026-01-01\n',
        "docs/c.md": f"[One](https://c.dev/1). [Two]({PAGES[0].source}). [Three](https://example.com/c).\n",
        "docs/reference/d.md": "[A generated page](https://d.dev/1)\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    lines = list(undated_links(tmp_path))
    assert [line.split(" has no day. Fix: ")[0] for line in lines] == [
        "muster/a.py: https://a.dev/1",
        "muster/a.py: https://a.dev/2",
        "docs/c.md: https://c.dev/1",
    ]


def test_every_link_has_a_day_and_every_day_a_link() -> None:
    assert not list(undated_links())
    assert {page.source for page in PAGES} == set(links(IMPORT_ROOT))


def test_facts_are_sorted_by_age_and_none_is_of_a_day_to_come() -> None:
    days = [found.read for found in facts()]
    assert days == sorted(days)
    assert days[-1] <= max(today(), DAY)


def test_an_old_fact_is_refused_until_it_is_read_again_or_named() -> None:
    known = [
        fact("new", OLD_AFTER),
        fact("old", OLD_AFTER + timedelta(days=1)),
        fact("older", OLD_AFTER + timedelta(days=2)),
    ]
    lines = list(old_facts(known, day=DAY))
    assert [line.split(":")[0] for line in lines] == ["older", "old"]
    assert "read 91 days ago in https://old" in lines[1]
    assert "Fix: read it again (open it)" in lines[1]
    assert [line.split(":")[0] for line in old_facts(known, day=DAY, accepted=["old"])] == ["older"]
