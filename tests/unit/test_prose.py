"""Words that the README and the documentation do without, each with what to write."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
WORDS: Final = {
    r"nobody|somebody|whoever": "name the actor",
    r"tells|told": "reports, shows, configures; or name the actor",
    r"stood|stands (?:for|on|in)": "represents, runs on, is in",
}
_CODE: Final = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


def pages() -> list[Path]:
    """Decisions record their day, and licences are the words of others."""
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    return [
        page
        for page in found
        if page.parent.name != "decisions" and page.name not in ("CHANGELOG.md", "licences.md")
    ]


def violations(text: str) -> list[tuple[int, str, str]]:
    """Line, word and advice of each; code is skipped."""
    prose = _CODE.sub(lambda code: "\n" * code[0].count("\n"), text)
    return [
        (prose.count("\n", 0, match.start()) + 1, match[0], advice)
        for words, advice in WORDS.items()
        for match in re.finditer(rf"\b(?:{words})\b", prose, re.IGNORECASE)
    ]


def test_finds_a_word_outside_code() -> None:
    assert violations("```\ntold\n```\n`told` Nobody") == [(4, "Nobody", "name the actor")]


def test_documentation_has_none_of_the_words() -> None:
    found = [
        f"{page.relative_to(ROOT)}:{line}: '{word}': {advice}"
        for page in pages()
        for line, word, advice in violations(page.read_text(encoding="utf-8"))
    ]
    assert found == []
