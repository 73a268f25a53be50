"""MkDocs hooks: links to files of the repository outside docs/, and no content from other hosts.

The site has no files from outside docs/, so it shows their paths in place of the links. Two things are
warnings, and with `strict` errors: a link to no file, and a page that loads anything from another host.
Decisions and lists that no reader looks for are left out of the search, and what readers look for most has
to be its first answer.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

_LINK: Final = re.compile(r"(?<!!)\[(?P<text>[^\]]+)\]\((?P<target>\.\./[^)#\s]+)(?:#[^)]*)?\)")
_LOADED: Final = re.compile(
    r"<(?:script|img|iframe|link\b[^>]*rel=.?stylesheet)\b[^>]*(?:src|href)=.?(https?://[^\s\"'>]+)"
)
_NOT_SEARCHED: Final = ("decisions/", "licences.md", "tenant-rights.md", "upstream/")
# What a reader types, and the page that has to come first.
_SEARCHED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "submit a job": "submit.html",
        "cost": "costs.html",
        "upgrade": "upgrades.html",
        "notebook": "submit.html",
        "docker": "faq.html",
    }
)
# What the search of the theme does with a title, and a word that it skips.
_BOOST: Final = 1000.0
_SKIPPED: Final = frozenset({"a"})
_log: Final = logging.getLogger("mkdocs.hooks.checks")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    if page.file.src_uri.startswith(_NOT_SEARCHED):
        page.meta["search"] = {"exclude": True}
    docs = Path(config.docs_dir).resolve()
    source = Path(page.file.abs_src_path)

    def path_for_link(link: re.Match[str]) -> str:
        target = (source.parent / link["target"]).resolve()
        if target.is_relative_to(docs) and not target.is_dir():
            return link[0]
        if not target.exists():
            _log.warning("%s links to '%s', which does not exist.", page.file.src_uri, link["target"])
        path = f"`{target.relative_to(docs.parent)}`"
        return path if link["text"].strip("`") in path else f"{link['text']} ({path})"

    return _LINK.sub(path_for_link, markdown)


def on_post_page(output: str, *, page: Any, **_: Any) -> None:
    for address in _LOADED.findall(output):
        _log.warning("%s loads %s: the site works offline.", page.file.src_uri, address)


def on_post_build(*, config: Any, **_: Any) -> None:
    index = json.loads(Path(config.site_dir, "search", "search_index.json").read_text(encoding="utf-8"))
    for query, page in _SEARCHED.items():
        (first, *_) = (*best_pages(query, index["docs"]), "no page")
        if first != page:
            _log.warning("the search for '%s' finds %s first, not %s.", query, first, page)


def best_pages(query: str, sections: Iterable[Mapping[str, str]]) -> list[str]:
    """The pages with every word of a query, the best one first, about as the theme's search ranks them. A
    word matches those that begin with it, and a title counts more than a text.
    """
    scores: dict[str, float] = {}
    for section in sections:
        title, text = _words(section["title"]), _words(section["text"])
        found = [(_share(word, title, 0), _share(word, text, 50)) for word in _words(query)]
        if all(any(shares) for shares in found):
            page = section["location"].partition("#")[0]
            score = sum(_BOOST * in_title + in_text for in_title, in_text in found)
            scores[page] = max(scores.get(page, 0.0), score)
    return sorted(scores, key=lambda page: -scores[page])


def _words(text: str) -> list[str]:
    words = re.findall(r"[a-z0-9]+", re.sub(r"<[^>]+>", " ", text).lower())
    return [word for word in words if word not in _SKIPPED]


def _share(word: str, words: list[str], least: int) -> float:
    """How much of a text a word is: long texts have more words."""
    return sum(each.startswith(word) for each in words) / max(1, len(words) + least) ** 0.5
