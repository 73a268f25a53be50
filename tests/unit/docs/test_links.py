"""Links of the README and of the documentation lead to files of the repository and to their headings, on
GitHub as on the site.
"""

import re
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from muster.reference.markdown import slug
from tests.unit.docs.blocks import ROOT, pages

_CODE: Final = re.compile(r"^ *```.*?^ *```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")


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
