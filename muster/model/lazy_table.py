"""Tables that are read from files when somebody first looks into them, not when a module is imported."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TypeVar

Row = TypeVar("Row")


class LazyTable(Mapping[str, Row]):
    """The mapping that `load` makes."""

    def __init__(self, load: Callable[[], Mapping[str, Row]]) -> None:
        self._rows = cache(load)

    def __getitem__(self, key: str) -> Row:
        return self._rows()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows())

    def __len__(self) -> int:
        return len(self._rows())
