"""Links of the README and of the documentation lead to files of the repository and to their headings, on
GitHub as on the site.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from release.reference.markdown import slug
from tests.unit.docs.blocks import ROOT, pages

_CODE: Final = re.compile(r"^ *```.*?^ *```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")
# What a message of the product says.
_PAGE: Final = re.compile(r'page "([^"]+)" of the documentation')
_FILE: Final = re.compile(r"\bdocs/[\w/-]+\.md\b")


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    dead = []
    for target, anchor in _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8"))):
        file = (page.parent / target).resolve() if target else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            dead.append(f"{target}#{anchor}" if anchor else target)
    assert dead == []


@cache
def anchors(page: Path) -> frozenset[str]:
    text = page.read_text(encoding="utf-8")
    headings = re.findall(
        r"^#+ (.*)$", re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE
    )
    named = re.findall(r'<a id="([^"]+)">|\{#([\w-]+)\}', text)
    return frozenset(
        {*(slug(_plain(each)) for each in headings), *(name for pair in named for name in pair if name)}
    )


def _plain(heading: str) -> str:
    """Without links and code marks."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip()


def _messages() -> Iterator[tuple[str, str]]:
    """File and text of each string of the product that is no docstring. What writes pages names files."""
    for file in sorted((ROOT / "muster").rglob("*.py")):
        if "reference" in file.parts or file.name == "observability.py":
            continue
        tree = ast.parse(file.read_text(encoding="utf-8"))
        docstrings = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
        for each in ast.walk(tree):
            if isinstance(each, ast.JoinedStr):
                parts = [part.value for part in each.values if isinstance(part, ast.Constant)]
                yield str(file), "".join(map(str, parts))
            if isinstance(each, ast.Constant) and isinstance(each.value, str) and id(each) not in docstrings:
                yield str(file), each.value


def test_messages_name_pages_by_title_and_no_file_that_a_wheel_lacks() -> None:
    titles = {
        line.removeprefix("# ").strip()
        for page in (ROOT / "docs").rglob("*.md")
        for line in page.read_text(encoding="utf-8").splitlines()
        if line.startswith("# ")
    }
    messages = list(_messages())
    assert [(file, text) for file, text in messages if _FILE.search(text)] == []
    named = {title for _, text in messages for title in _PAGE.findall(text)}
    assert named
    assert named <= titles
