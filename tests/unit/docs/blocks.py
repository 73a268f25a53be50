"""The code blocks of the README and of the documentation.

A block that no test executes has its reason in a comment before it: `<!-- not run: needs a cluster -->`. A
block that another test executes names it, for itself or, at the head of a page, for the whole page:
`<!-- run by: tests/unit/test_first_preview.py -->`. A block that shows a part of a file of this repository
names the file: `<!-- part of: stacks/base.yaml -->`. Text about the program itself is
compared with the program: `<!-- parsed: usage and examples -->`.
"""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[3]
_FENCE: Final = re.compile(
    r"^(?P<indent> *)```(?P<language>\S*)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL
)
_MARK: Final = r"<!-- (?P<word>not run|run by|part of|parsed): (?P<value>[^>]*?) -->"
_BEFORE: Final = re.compile(rf"{_MARK}\n\s*$")
# Between the title and the first paragraph.
_OF_PAGE: Final = re.compile(rf"\A# .*\n\n{_MARK}\n\n")


@dataclass(frozen=True, slots=True)
class Mark:
    """Why a block is not executed here, or what executes it."""

    word: str
    value: str


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block; `line` is that of its fence."""

    page: Path
    line: int
    language: str
    text: str
    mark: Mark | None

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def pages() -> list[Path]:
    return [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]


def blocks(page: Path, text: str | None = None) -> Iterator[Block]:
    """Every block of a page."""
    text = page.read_text(encoding="utf-8") if text is None else text
    of_page = _mark(_OF_PAGE.search(text))
    for fence in _FENCE.finditer(text):
        yield Block(
            page=page,
            line=text.count("\n", 0, fence.start()) + 1,
            language=fence["language"],
            text=textwrap.dedent(fence["text"]),
            mark=_mark(_BEFORE.search(text, 0, fence.start())) or of_page,
        )


def _mark(match: re.Match[str] | None) -> Mark | None:
    return None if match is None else Mark(match["word"], match["value"])


def indented_commands(text: str) -> list[int]:
    """Lines of commands that are code by their indentation alone, in which nothing is looked for."""
    outside = _FENCE.sub(lambda fence: "\n" * fence[0].count("\n"), text)
    commands = re.compile(
        r"^ {4,}(?:\$ )?(?:muster|kubectl|pulumi|gcloud|aws|make|python|pip|git) .*[^.:;,]$", re.MULTILINE
    )
    return [outside.count("\n", 0, match.start()) + 1 for match in commands.finditer(outside)]
