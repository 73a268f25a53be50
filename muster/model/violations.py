"""A violation of a rule: where, what, and how to fix it.

Responsible for the common type of all rules' results and for the format of a config path.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from types import MappingProxyType
from typing import Final, Literal

from muster.model.nearest import meant

Level = Literal["error", "warning"]
_MOST_LISTED: Final = 30
_NEAREST: Final = 5
# What lists every word of a noun that has more.
_LISTED_BY: Final[Mapping[str, str]] = MappingProxyType({"machine": "; see `muster machines`"})


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule. `path` is the config path (`muster:pools.l4.capacity`), `fix` an instruction to a
    person.

    A warning is worth a reviewer's look and stops nothing.
    """

    path: str
    message: str
    fix: str
    level: Level = "error"

    def __str__(self) -> str:
        return f"{self.path}: {self.message} Fix: {self.fix}"


def at(*parts: str | int) -> str:
    """The written config path: `at("muster:", "pools", "l4", "machine")` is `muster:pools.l4.machine`."""
    path = ""
    for part in parts:
        if isinstance(part, int):
            path = f"{path}[{part}]"
        elif path and path[-1] != ":":
            path = f"{path}.{part}"
        else:
            path += part
    return path


def suggestion(word: str, allowed: Iterable[str], *, noun: str) -> str:
    """The `fix` for an unknown word: the one that was meant, and what is allowed. Of many words that is the
    nearest few.
    """
    return _suggestion(word, tuple(sorted(allowed)), noun)


def _listed(word: str, choices: tuple[str, ...], noun: str) -> str:
    """All choices; of many the nearest, and what lists the others."""
    if len(choices) <= _MOST_LISTED:
        return ", ".join(choices)
    near = ", ".join(get_close_matches(word, choices, n=_NEAREST, cutoff=0))
    return f"{near} and {len(choices) - _NEAREST} others{_LISTED_BY.get(noun, '')}"


# A template that is wrong once is wrong for every team.
@lru_cache(maxsize=1024)
def _suggestion(word: str, choices: tuple[str, ...], noun: str) -> str:
    name, colon, value = word.partition(":")
    if colon and name in choices:  # YAML reads `l4:8` as one word.
        return f"put a space after the colon: `{name}: {value}`."
    close, instruction = meant(word, choices, noun=noun)
    listed = _listed(word, choices, noun)
    if close is not None:
        return f"did you mean {close!r}? Allowed: {listed}."
    if instruction:
        return f"{instruction}. Allowed: {listed}."
    if choices:
        return f"use one of: {listed}."
    return f"define a {noun} first: there is none."
