"""Language of the README and the documentation: words that they do without, and the length of sentences."""

import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
WORDS: Final = {
    r"nobody|somebody|whoever": "name the actor",
    r"tells|told": "reports, shows, configures; or name the actor",
    r"stood|stands (?:for|on|in)": "represents, runs on, is in",
    r"to be had": "available; or name who offers it",
    r"in vain": "without use; or say what is lost",
    r"as the case may be|the same holds": "say what holds",
}
MOST_WORDS: Final = 20
"""The mean length of a page's sentences: its readers read English as a second language."""
MOST_WORDS_OF_PAGES: Final = 40_000
_COMMENT: Final = re.compile(r"<!--.*?-->", re.DOTALL)
_GENERATED: Final = re.compile(r"<!--.*?do not edit.*?-->", re.DOTALL)
_CODE: Final = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
_NO_SENTENCE: Final = re.compile(r"^\s*(?:\||#|<|!!!).*$|^ {6,}.*$", re.MULTILINE)
_LINK: Final = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_ITEM: Final = re.compile(r"\n(?:\s*\n|\s*[-*] |\s*\d+\. )")


def pages() -> list[Path]:
    """Decisions record their day, and licences are the words of others."""
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    return [
        page
        for page in found
        if page.parent.name != "decisions" and page.name not in ("CHANGELOG.md", "licences.md")
    ]


def written_pages() -> list[Path]:
    """Those that people write, and that have sentences."""
    return [
        page
        for page in pages()
        if ("reference" not in page.parts and page.name != "samples.md") or page.name == "evidence.md"
    ]


@pytest.mark.parametrize("is_generated", [False, True])
def test_the_documentation_stays_shorter_than_a_book(*, is_generated: bool) -> None:
    """A word has a letter or a digit. Decisions and licences are looked up, not read."""
    texts = [page.read_text(encoding="utf-8") for page in pages()]
    counted = [text for text in texts if (_GENERATED.search(text) is not None) is is_generated]
    words = sum(1 for text in counted for word in _COMMENT.sub("", text).split() if re.search(r"\w", word))
    assert 0 < words <= MOST_WORDS_OF_PAGES


def violations(text: str) -> list[tuple[int, str, str]]:
    """Line, word and advice of each; code is skipped."""
    prose = _CODE.sub(lambda code: "\n" * code[0].count("\n"), text)
    return [
        (prose.count("\n", 0, match.start()) + 1, match[0], advice)
        for words, advice in WORDS.items()
        for match in re.finditer(rf"\b(?:{words})\b", prose, re.IGNORECASE)
    ]


def sentences(text: str) -> list[str]:
    """Those of paragraphs and lists; tables, headings and code have none."""
    prose = _LINK.sub(r"\1", _NO_SENTENCE.sub("", _CODE.sub("x", text)))
    found = re.split(r"(?<=[.!?])\s+|\f", _ITEM.sub("\f", prose))
    return [sentence for sentence in found if len(sentence.split()) > 2]


def mean_words(text: str) -> float:
    found = sentences(text)
    return sum(len(each.split()) for each in found) / len(found) if found else 0


def test_finds_the_length_of_sentences() -> None:
    assert mean_words("# A heading of many words here\n\nOne two three.\nOne two three `of code` five.") == 4


@pytest.mark.parametrize("page", written_pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_the_sentences_of_a_page_are_short(page: Path) -> None:
    assert mean_words(page.read_text(encoding="utf-8")) <= MOST_WORDS


def test_finds_a_word_outside_code() -> None:
    assert violations("```\ntold\n```\n`told` Nobody") == [(4, "Nobody", "name the actor")]


def test_documentation_has_none_of_the_words() -> None:
    found = [
        f"{page.relative_to(ROOT)}:{line}: '{word}': {advice}"
        for page in pages()
        for line, word, advice in violations(page.read_text(encoding="utf-8"))
    ]
    assert found == []
