"""The sentences that a CEL expression can answer, as a reader sees them.

A message is a sum of strings and of values. Strings stay, a value becomes a word in capitals or an ellipsis.
What a value may contain (the faults of a list) are further sentences, also those of the variables that it
reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

_ELLIPSIS: Final = "…"
_SEPARATOR: Final = re.compile(r" \? | : |, | \|\| | && ")
_COLON: Final = re.compile(r": ")
_COMPARISON: Final = re.compile(r" (?:==|!=|<|<=|>|>=|in) ")
_PLUS: Final = re.compile(r" \+ ")
_VARIABLE: Final = re.compile(r"\bvariables\.(\w+)")
# What a value is shown as, by the first pattern that matches.
_SHOWN: Final = (
    (r"(object\.kind)", "KIND"),
    (r"object\.metadata\.\??name", "NAME"),
    (r"request\.name", "NAME"),
    (r"variables\.account", "NAME"),
    (r"request\.resource\.resource", "RESOURCE"),
    (r"variables\.queues", "QUEUES"),
    (r"variables\.priorities", "PRIORITIES"),
    (r"variables\.jobPath", ""),
    (r"variables\.(clusterPath|path)$", "PATH"),
)


def sentences(expression: str, variables: Mapping[str, str]) -> list[str]:
    """The message itself first, then each sentence that may be a part of it."""
    found = dict.fromkeys((_text(split(expression, _PLUS)), *_sentences(expression)))
    seen: set[str] = set()
    waiting = _VARIABLE.findall(expression)
    while waiting:
        name = waiting.pop(0)
        if name not in seen and name in variables:
            seen.add(name)
            found |= dict.fromkeys(_sentences(variables[name]))
            waiting += _VARIABLE.findall(variables[name])
    return list(found)


def _sentences(expression: str) -> Iterator[str]:
    parts = split(expression, _PLUS)
    if any(_is_literal(part) for part in parts):
        text = _text(parts)
        fewest = 4 if text.startswith(_ELLIPSIS) else 1
        if len(re.findall(r"\S \S", text.replace(_ELLIPSIS, ""))) >= fewest:
            yield text
        parts = [part for part in parts if not _is_literal(part)]
    for part in parts:
        for inner in _brackets(part):
            for each in split(inner, _SEPARATOR):
                # Neither what is compared nor the place of a fault is a sentence.
                if len(split(each, _COMPARISON)) == 1 and not each.startswith("'path': "):
                    yield from _sentences(split(each, _COLON)[-1])


def _text(parts: Sequence[str]) -> str:
    return "".join(map(_shown, parts)).strip("; ")


def _shown(part: str) -> str:
    if _is_literal(part):
        return part[1:-1].replace("\\'", "'").replace('\\"', '"')
    for pattern, word in _SHOWN:
        if re.match(pattern, part):
            return word
    return _ELLIPSIS


def _is_literal(part: str) -> bool:
    return part[:1] in ("'", '"') and _end_of_string(part, 0) == len(part)


def split(text: str, separator: re.Pattern[str]) -> list[str]:
    """Parts between separators that are in no bracket and no string."""
    parts, begin, at = [], 0, 0
    while at < len(text):
        if match := separator.match(text, at):
            parts.append(text[begin:at])
            begin = at = match.end()
        else:
            at = _next(text, at)
    return [part.strip() for part in (*parts, text[begin:])]


def _brackets(text: str) -> Iterator[str]:
    """What is in the outermost brackets."""
    at = 0
    while at < len(text):
        end = _next(text, at)
        if text[at] in "([{":
            yield text[at + 1 : end - 1]
        at = end


def _next(text: str, at: int) -> int:
    """The position after the string, the bracket or the letter that begins here."""
    if text[at] in "'\"":
        return _end_of_string(text, at)
    if text[at] not in "([{":
        return at + 1
    at += 1
    while text[at] not in ")]}":
        at = _next(text, at)
    return at + 1


def _end_of_string(text: str, at: int) -> int:
    quote, end = text[at], at + 1
    while text[end] != quote:
        end += 2 if text[end] == "\\" else 1
    return end + 1
