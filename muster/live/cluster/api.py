"""Reads lists, page by page, and single objects of a cluster.

A list whose continue token has expired is read again from the beginning, so that it is consistent
(https://kubernetes.io/docs/reference/using-api/api-concepts/#retrieving-large-results-sets-in-chunks).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar
from urllib.parse import quote

from muster.live.fields import items, mapping, text
from muster.live.web import Web, WebError

Found = TypeVar("Found")

_PAGE: Final = 500
_MAX_STARTS: Final = 3
_EXPIRED: Final = 410


def inside(namespace: str) -> str:
    """The part of a path that names a namespace, empty for all of them."""
    return f"/namespaces/{quote(namespace, safe='')}" if namespace else ""


@dataclass(frozen=True, slots=True)
class Api:
    """`progress` is called with the plural and the number of objects of a list that were read so far."""

    web: Web
    progress: Callable[[str, int], None] = lambda plural, count: None

    def get(self, path: str) -> object:
        """One object. WebError with status 404 when it does not exist."""
        return self.web.call("GET", path).json(path)

    def find(self, path: str) -> object | None:
        """One object; None when it does not exist."""
        try:
            return self.get(path)
        except WebError as error:
            if error.status == 404:
                return None
            raise

    def list_all(self, path: str, convert: Callable[[object], Found | None]) -> list[Found]:
        """Every object of a list, each converted as soon as its page is read. None leaves the object out."""
        for start in range(1, _MAX_STARTS + 1):
            try:
                return self._pages(path, convert)
            except WebError as error:
                if error.status != _EXPIRED or start == _MAX_STARTS:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _pages(self, path: str, convert: Callable[[object], Found | None]) -> list[Found]:
        found: list[Found] = []
        token, count = "", 0
        while True:
            page = self.get(f"{path}?limit={_PAGE}&continue={quote(token)}")
            listed = items(page, "items")
            count += len(listed)
            found += [kept for each in listed if (kept := convert(each)) is not None]
            self.progress(path.rpartition("/")[2], count)
            token = text(mapping(page, "metadata"), "continue")
            if not token:
                return found
