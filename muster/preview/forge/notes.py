"""Maintains the one comment with the report on a pull request.

The comment is recognized by its hidden marker and its author. It is created once: when the response to a
creation is lost, the comment is looked up before the next attempt.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlsplit

from muster.live.fields import Json
from muster.live.web import Response, Web, WebError

# Writes the report where it can be read without the right to comment, which a fork's job does not have.
# GitHub shows what is appended to the file GITHUB_STEP_SUMMARY on the job's page, up to 1 MiB
# (https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands#adding-a-job-summary).
# GitLab has no such page: the report goes into a file, to be kept as an artifact, and into the log.

ARTIFACT: Final = "muster-preview.md"


def write_summary(body: str, environment: Mapping[str, str]) -> str:
    """Write the report, and return where it is."""
    page = environment.get("GITHUB_STEP_SUMMARY", "")
    if page:
        with Path(page).open("a", encoding="utf-8") as file:
            file.write(f"{body}\n")
        return "the job's summary"
    if environment.get("GITLAB_CI"):
        Path(ARTIFACT).write_text(body, encoding="utf-8")
        sys.stderr.write(body)
        return f"{ARTIFACT} and this log"
    sys.stderr.write(body)
    return "standard error"


_MAX_CREATIONS: Final = 3
# With 100 comments a page, these are 10,000 comments.
_MAX_PAGES: Final = 100
_NEXT: Final = re.compile(r'<([^<>]+)>;[^,<]*\brel="?next"?')


@dataclass(frozen=True, slots=True)
class Note:
    """A comment on the forge. `is_ours`: its author is the user of our token."""

    number: int
    body: str
    url: str
    is_ours: bool


class Forge(Protocol):
    """One pull request of one forge."""

    def notes(self) -> Iterator[Note]: ...

    def create(self, body: str) -> Note: ...

    def update(self, note: Note, body: str) -> Note: ...


@dataclass(frozen=True, slots=True)
class CommentResult:
    """What was done: `created`, `updated` or `unchanged`."""

    action: str
    url: str


def format_marker(name: str) -> str:
    """The hidden first line by which the comment of this name is recognized.

    Two hyphens would end an HTML comment, so a name keeps letters, digits, dots and single hyphens.
    """
    return f"<!-- muster:preview:{re.sub(r'[^A-Za-z0-9.]+', '-', name).strip('-') or 'default'} -->"


def upsert(forge: Forge, body: str, *, name: str) -> CommentResult:
    """Create or update the comment. WebError when the forge refuses or does not respond."""
    first = format_marker(name)
    text = f"{first}\n{body}"
    for attempt in range(1, _MAX_CREATIONS + 1):
        note = _find_ours(forge, first)
        if note is not None:
            if note.body.rstrip() == text.rstrip():
                return CommentResult("unchanged", note.url)
            return CommentResult("updated", forge.update(note, text).url)
        try:
            return CommentResult("created", forge.create(text).url)
        except WebError as error:
            # It may have been created: look it up before the next attempt.
            if attempt == _MAX_CREATIONS or error.status not in (None, 502, 504):
                raise
    raise AssertionError("the last attempt returns or raises")


def _find_ours(forge: Forge, first: str) -> Note | None:
    """GitLab strips whitespace around a body, and GitHub may return CRLF line ends."""
    for note in forge.notes():
        if note.is_ours and note.body.replace("\r\n", "\n").lstrip().startswith(f"{first}\n"):
            return Note(note.number, note.body.replace("\r\n", "\n"), note.url, note.is_ours)
    return None


def list_pages(web: Web, path: str, what: str) -> Iterator[Json]:
    """Every item of a paginated list.

    Both forges name the next page in a `Link` header (https://www.rfc-editor.org/rfc/rfc8288). A link to
    another server is refused, because that server would get our token.
    """
    for _ in range(_MAX_PAGES):
        response = web.call("GET", path)
        found = response.json(what)
        if not isinstance(found, list):
            raise WebError(f"{what}: the response is not a list.", status=response.status)
        yield from (each for each in found if isinstance(each, dict))
        following = _next_page(response, web)
        if following is None:
            return
        path = following
    raise WebError(f"{what}: more than {_MAX_PAGES} pages.")


def _next_page(response: Response, web: Web) -> str | None:
    named = _NEXT.search(response.headers.get("link", ""))
    if named is None:
        return None
    base, url = urlsplit(web.base), urlsplit(named[1])
    if (url.scheme, url.netloc) != (base.scheme, base.netloc) or not named[1].startswith(web.base):
        raise WebError(f"the next page is on another server, {url.hostname}, and is not followed.")
    return named[1].removeprefix(web.base)
