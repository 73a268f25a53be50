"""A mapping of a stack file or of a custom resource while it is read.

Responsible for how a key is read: its type, the allowed values, the most similar known key for an unknown
one. Reading continues after a mistake, so that all mistakes are reported at once.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import TypeVar

from muster.model.quantities import Bytes, Quantity, parse_duration, parse_memory
from muster.model.violations import Violation, at, suggestion

Word = TypeVar("Word", bound=StrEnum)
Item = TypeVar("Item")


class Section:
    """The mapping at `path`. `close` reports every key that no reader asked for, unless it is `lenient`."""

    def __init__(self, value: object, path: str, found: list[Violation], *, lenient: bool = False) -> None:
        self.path = path
        self.found = found
        self._lenient = lenient
        self._asked: dict[str, None] = {}
        self._values: Mapping[str, object] = {}
        if isinstance(value, Mapping):
            self._values = {str(key): item for key, item in value.items()}
        elif value is not None:
            self.note(
                "", f"must be a mapping, is {describe_value(value)}.", "write `key: value` lines below it."
            )

    def note(self, key: str, message: str, fix: str) -> None:
        """Report a mistake at `key` of this section, or at the section itself for ""."""
        self.found.append(Violation(at(self.path, key) if key else self.path, message, fix))

    def has(self, key: str) -> bool:
        self._asked[key] = None
        return self._values.get(key) is not None

    def get(self, key: str) -> object:
        """The raw value; None when it is absent or empty."""
        self._asked[key] = None
        return self._values.get(key)

    def items(self) -> Iterator[tuple[str, object]]:
        """Every key and value, for a section whose keys are names chosen by the user."""
        for key, value in self._values.items():
            self._asked[key] = None
            yield key, value

    @property
    def written(self) -> tuple[str, ...]:
        """The keys that it has, whether a reader asked for them or not."""
        return tuple(self._values)

    @property
    def asked(self) -> tuple[str, ...]:
        """The keys that a reader asked for."""
        return tuple(self._asked)

    def rest(self) -> Mapping[str, object]:
        """The keys that no reader asked for, for one that knows them all."""
        rest = {key: value for key, value in self._values.items() if key not in self._asked}
        self._asked |= dict.fromkeys(rest)
        return rest

    def names(self) -> tuple[str, ...]:
        """Every key, in the order of the alphabet: the engine keeps no other."""
        return tuple(sorted(name for name, _ in self.items()))

    def section(self, key: str) -> "Section":
        return self._below(self.get(key), key)

    def _below(self, value: object, *parts: str | int) -> "Section":
        return Section(value, at(self.path, *parts), self.found, lenient=self._lenient)

    def text(self, key: str, *, required: bool = False, example: str = "") -> str | None:
        """A text; `example` is a value that the fix shows in place of a mapping or a list."""
        value = self.get(key)
        if value is None:
            if required:
                self.require(key)
            return None
        if isinstance(value, str) and value:
            return value
        fix = "put the value in quotes."
        if isinstance(value, Mapping | Sequence):
            fix = f"write the value itself: `{key}: {example or 'VALUE'}`."
        self.note(key, f"must be a text, is {describe_value(value)}.", fix)
        return None

    def require(self, key: str) -> None:
        if self.get(key) is None:
            self.note(key, "is missing.", f"write `{key}:` and its value.")

    def choice(self, key: str, words: type[Word], default: Word | None = None) -> Word | None:
        """A member of the enumeration, or the default when absent. Absent without a default is a mistake."""
        value = self.get(key)
        if value is None and default is not None:
            return default
        allowed = [word.value for word in words]
        if value is None:
            self.note(key, "is missing.", f"write one of: {', '.join(allowed)}.")
            return default
        if isinstance(value, str) and value in allowed:
            return words(value)
        fix = (
            suggestion(value, allowed, noun=key)
            if isinstance(value, str)
            else f"use one of: {', '.join(allowed)}."
        )
        self.note(key, f"is {describe_value(value)}, which is not allowed.", fix)
        return default

    def integer(
        self, key: str, default: int | None = None, *, least: int = 0, most: int = 2**31 - 1
    ) -> int | None:
        """A whole number from `least` to `most`, or the default when absent. Absent without a default is a
        mistake.
        """
        value = self.get(key)
        if value is None:
            if default is None:
                self.note(key, "is missing.", f"write a whole number from {least}.")
            return default
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        fix = f"write one, such as {max(least, min(1, most)) if default is None else max(default, least)}."
        if isinstance(value, str) and (digits := re.match(r"\d{1,9}", value)):
            fix = f"write it without quotes and without a unit: {digits[0]}."
        message = f"must be a whole number from {least} to {most}, is {describe_value(value)}."
        self.note(key, message, fix)
        return default

    def flag(self, key: str, default: bool) -> bool:
        """`true` or `false`."""
        value = self.get(key)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        self.note(
            key, f"must be true or false, is {describe_value(value)}.", "write it without quotes: true."
        )
        return default

    def texts(self, key: str) -> Mapping[str, str]:
        entries = self.section(key)
        found: dict[str, str] = {}
        for name, value in entries.items():
            if isinstance(value, str) and value:
                found[name] = value
            else:
                entries.note(name, f"must be a text, is {describe_value(value)}.", "put the value in quotes.")
        return MappingProxyType(found)

    def number(self, key: str, *, least: float = 0, most: float = 1e9) -> float | None:
        """A number from `least` to `most`, not necessarily whole. None when absent."""
        value = self.get(key)
        if value is None:
            return None
        if isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most:
            return float(value)
        fix = f"write one, such as {max(least, min(most, 1)):g}."
        self.note(key, f"must be a number from {least:g} to {most:g}, is {describe_value(value)}.", fix)
        return None

    def duration(self, key: str, default: int) -> int:
        """A duration such as `30m` in seconds."""
        value = self.get(key)
        if value is None:
            return default
        try:
            return int(
                parse_duration(value if isinstance(value, str) else repr(value)) / timedelta(seconds=1)
            )
        except ValueError:
            self.note(
                key, f"must be a duration, is {describe_value(value)}.", "write it like 45s, 30m or 1h30m."
            )
            return default

    def words(self, key: str) -> tuple[str, ...]:
        value = self.get(key)
        if value is None:
            return ()
        if (
            isinstance(value, Sequence)
            and not isinstance(value, str)
            and all(isinstance(item, str) for item in value)
        ):
            return tuple(str(item) for item in value)
        fix = (
            f"write it in brackets: [{value}]."
            if isinstance(value, str)
            else "write it like [first, second]."
        )
        self.note(key, f"must be a list of names, is {describe_value(value)}.", fix)
        return ()

    def choices(
        self, key: str, words: type[Word], *, noun: str, is_of_list: bool = False
    ) -> tuple[Word, ...]:
        """A list of words of an enum, in the enum's order. A mistake is at its word, or `is_of_list`."""
        allowed, written = [each.value for each in words], self.words(key)
        for index, word in enumerate(written):
            if word not in allowed:
                fix = suggestion(word, allowed, noun=noun.split()[0])
                self.note(key if is_of_list else f"{key}[{index}]", f"{word!r} is no {noun}.", fix)
        return tuple(each for each in words if each.value in written)

    def quantity(self, key: str) -> Quantity | None:
        """An amount such as 8, 1.5 or 100Gi. None when it is absent, or malformed and reported."""
        value = self.get(key)
        if value is None:
            return None
        try:
            if isinstance(value, bool) or not isinstance(value, str | int | float):
                raise ValueError(f"{describe_value(value)} is not a number")
            return Quantity.parse(value)
        except ValueError as error:
            self.note(key, f"must be an amount: {error}.", "write it like 8, 1.5, 500m or 100Gi.")
            return None

    def parsed(
        self, key: str, parse: Callable[[str], Item], *, noun: str, fix: str, is_required: bool = False
    ) -> Item | None:
        """What `parse` makes of a number or a text. None when it is absent, or malformed and reported."""
        value = self.get(key)
        if value is None and not is_required:
            return None
        try:
            if isinstance(value, bool) or not isinstance(value, str | int | float):
                raise ValueError(f"{describe_value(value)} is not a number")
            return parse(str(value))
        except ValueError as error:
            self.note(key, f"must be {noun}: {error}.", fix)
            return None

    def memory(self, key: str) -> Bytes | None:
        """An amount of memory; None when it is malformed and reported."""
        try:
            return parse_memory(str(self.get(key)))
        except ValueError as error:
            self.note(key, f"must be an amount of memory: {error}.", "write it like 512Mi or 6Gi.")
            return None

    def each(self, key: str, read: Callable[["Section", str], Item | None]) -> tuple[Item, ...]:
        """Apply `read` to every entry of a mapping from names to sections. Entries that could not be read are
        left out.
        """
        entries = self.section(key)
        found = [read(entries.section(name), name) for name in entries.names()]
        return tuple(item for item in found if item is not None)

    def list(
        self, key: str, read: Callable[["Section"], Item | None], *, fix: str = "", is_required: bool = False
    ) -> tuple[Item, ...]:
        """Apply `read` to every entry of a list of sections. Entries that could not be read are left out. One
        that `is_required` has an entry at least.
        """
        value = self.get(key)
        is_list = isinstance(value, Sequence) and not isinstance(value, str)
        if is_required and not (is_list and value):
            self.note(key, f"must be a list of {key}, is {describe_value(value)}.", fix)
        elif value is not None and not is_list:
            message = f"must be a list, is {describe_value(value)}."
            self.note(key, message, fix or "write `- key: value` lines below it.")
        items = value if isinstance(value, Sequence) and not isinstance(value, str) else ()
        entries = [read(self._below(item, key, index)) for index, item in enumerate(items)]
        return tuple(item for item in entries if item is not None)

    def close(self) -> None:
        """Report every key that no reader asked for, with the most similar known key."""
        for key in () if self._lenient else self._values:
            if key not in self._asked:
                self.note(
                    key, "is not a key that Muster knows here.", suggestion(key, self._asked, noun="key")
                )


def describe_value(value: object) -> str:
    """A value as an error message shows it: shortened, or its type where the value itself would mislead."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "empty"}[value]
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "a list"
    shown = str(value) if isinstance(value, date) else repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
