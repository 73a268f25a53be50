"""The one comment of a report on a pull request.

Decides which comment is ours (it begins with our hidden marker, and the author is who we are), and that it is
written once: a creation whose answer is lost is looked for before it is tried again. Leaves the calls to
github.py and gitlab.py.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import urlsplit

from muster.live.fields import Json
from muster.live.web import Response, Web, WebError

_MAX_CREATIONS: Final = 3
# 100 comments a page: nobody reads a pull request with more.
_MAX_PAGES: Final = 100
_NEXT: Final = re.compile(r'<([^<>]+)>;[^,<]*\brel="?next"?')


@dataclass(frozen=True, slots=True)
class Note:
    """A comment as the forge has it. `is_ours`: its author is who we are."""

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
    """What became of a comment: `created`, `updated` or `unchanged`."""

    action: str
    url: str


def format_marker(name: str) -> str:
    """The hidden first line by which the comment of this name is found again.

    Two hyphens would end an HTML comment, so a name keeps letters, digits, dots and single hyphens.
    """
    return f"<!-- muster:preview:{re.sub(r'[^A-Za-z0-9.]+', '-', name).strip('-') or 'default'} -->"


def upsert(forge: Forge, body: str, *, name: str) -> CommentResult:
    """Creates or updates the comment; WebError when the forge refuses or does not answer."""
    first = format_marker(name)
    text = f"{first}\n{body}"
    for tries in range(1, _MAX_CREATIONS + 1):
        note = _find_ours(forge, first)
        if note is not None:
            if note.body.rstrip() == text.rstrip():
                return CommentResult("unchanged", note.url)
            return CommentResult("updated", forge.update(note, text).url)
        try:
            return CommentResult("created", forge.create(text).url)
        except WebError as error:
            # Whether it was created is not known: the next look tells.
            if tries == _MAX_CREATIONS or error.status not in (None, 502, 504):
                raise
    raise AssertionError("the last try returns or raises")


def _find_ours(forge: Forge, first: str) -> Note | None:
    """GitLab strips a body's ends and GitHub may return CRLF line ends."""
    for note in forge.notes():
        if note.is_ours and note.body.replace("\r\n", "\n").lstrip().startswith(f"{first}\n"):
            return Note(note.number, note.body.replace("\r\n", "\n"), note.url, note.is_ours)
    return None


def list_pages(web: Web, path: str, what: str) -> Iterator[Json]:
    """Every item of a list that goes on in pages.

    Both forges name the next page in a `Link` header (https://www.rfc-editor.org/rfc/rfc8288); one that
    leads to another server would get our token and is not followed.
    """
    for _ in range(_MAX_PAGES):
        answer = web.call("GET", path)
        found = answer.json(what)
        if not isinstance(found, list):
            raise WebError(f"{what}: the answer is no list.", status=answer.status)
        yield from (each for each in found if isinstance(each, dict))
        following = _next_page(answer, web)
        if following is None:
            return
        path = following
    raise WebError(f"{what}: goes on after {_MAX_PAGES} pages.")


def _next_page(answer: Response, web: Web) -> str | None:
    named = _NEXT.search(answer.headers.get("link", ""))
    if named is None:
        return None
    base, url = urlsplit(web.base), urlsplit(named[1])
    if (url.scheme, url.netloc) != (base.scheme, base.netloc) or not named[1].startswith(web.base):
        raise WebError(f"the next page lies on another server, {url.hostname}: not followed.")
    return named[1].removeprefix(web.base)
