"""Objects of a cluster: lists, page by page, and single ones.

Decides the size of a page, and that a list whose pages have expired is begun anew: what comes back is one
moment's truth
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
_BEGINNINGS: Final = 3
_EXPIRED: Final = 410


@dataclass(frozen=True, slots=True)
class Api:
    """`progress` is told how many objects of a list have come so far."""

    web: Web
    progress: Callable[[str, int], None] = lambda plural, count: None

    def get(self, path: str) -> object:
        """One object; WebError with status 404 when there is none."""
        return self.web.call("GET", path).json(path)

    def find(self, path: str) -> object | None:
        """One object, None when there is none."""
        try:
            return self.get(path)
        except WebError as error:
            if error.status == 404:
                return None
            raise

    def every(self, path: str, cut: Callable[[object], Found | None]) -> list[Found]:
        """Every object of a list, each cut down as soon as its page has come: None leaves it out."""
        for beginning in range(1, _BEGINNINGS + 1):
            try:
                return self._pages(path, cut)
            except WebError as error:
                if error.status != _EXPIRED or beginning == _BEGINNINGS:
                    raise
        raise AssertionError("the last beginning returns or raises")

    def _pages(self, path: str, cut: Callable[[object], Found | None]) -> list[Found]:
        found: list[Found] = []
        token, count = "", 0
        while True:
            page = self.get(f"{path}?limit={_PAGE}&continue={quote(token)}")
            listed = items(page, "items")
            count += len(listed)
            found += [kept for each in listed if (kept := cut(each)) is not None]
            self.progress(path.rpartition("/")[2], count)
            token = text(mapping(page, "metadata"), "continue")
            if not token:
                return found
