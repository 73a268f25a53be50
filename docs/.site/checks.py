"""MkDocs hooks: links to files of the repository outside docs/, and no content from other hosts.

The site has no files from outside docs/, so it shows their paths in place of the links. Two things are
warnings, and with `strict` errors: a link to no file, and a page that loads anything from another host.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any, Final

_LINK: Final = re.compile(r"(?<!!)\[(?P<text>[^\]]+)\]\((?P<target>\.\./[^)#\s]+)(?:#[^)]*)?\)")
_LOADED: Final = re.compile(
    r"<(?:script|img|iframe|link\b[^>]*rel=.?stylesheet)\b[^>]*(?:src|href)=.?(https?://[^\s\"'>]+)"
)
_log: Final = logging.getLogger("mkdocs.hooks.checks")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
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
