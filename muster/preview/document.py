"""The structure of a report, before it is written as Markdown or HTML.

Text of Muster is `str`. Everything that a user, a file or the engine wrote is `UntrustedText`, which a writer
has to escape, so it cannot become markup.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from muster.live.sanitize import sanitize_line


@dataclass(frozen=True, slots=True, order=True)
class UntrustedText:
    """Text of unknown origin, on one line and without invisible characters."""

    text: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", sanitize_line(self.text, longest=600))


Span = str | UntrustedText
Text = tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """`head` is text of Muster. Every row has as many cells. `figures` names the columns of figures, which
    are right-aligned.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[Text, ...], ...]
    figures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Items:
    """A list of sentences."""

    texts: tuple[Text, ...]


class Mark(StrEnum):
    """The change of a node of the queue tree."""

    SAME = "same"
    NEW = "new"
    GONE = "gone"
    MORE = "more"
    LESS = "less"
    OTHER = "changed"


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A node as it is drawn. `notes` are its amounts, as plain text."""

    name: UntrustedText
    is_team: bool
    mark: Mark
    notes: tuple[str, ...]
    children: tuple["TreeNode", ...]

    def walk(self) -> Iterator["TreeNode"]:
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True, slots=True)
class TreeDiagram:
    """The queue tree. `hidden`: how many unchanged nodes were left out to keep it readable."""

    roots: tuple[TreeNode, ...]
    hidden: int


@dataclass(frozen=True, slots=True)
class Line:
    """One value for each of equal steps of time."""

    label: str
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Lines over the time from `start` to `end`, which only a page draws. `caption` says the same in short.
    `top` is the value at the upper edge, and is labelled.
    """

    caption: str
    start: str
    end: str
    top: int
    lines: tuple[Line, ...]


Block = Table | Items | TreeDiagram | Chart


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a report. A comment that is too long leaves out whole sections, the smallest `weight`
    first. `is_folded` on the page and in a comment, `is_detail` in a comment alone.
    """

    title: str
    weight: int
    blocks: tuple[Block, ...]
    is_folded: bool = False
    is_detail: bool = False


@dataclass(frozen=True, slots=True)
class StackReport:
    """The report of one stack."""

    name: UntrustedText
    summary: tuple[Text, ...]
    sections: tuple[Section, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """All stacks, in the order of their names. With several stacks, `headline` comes first."""

    stacks: tuple[StackReport, ...]
    headline: Text = ()


def join_names(found: tuple[str, ...], *, most: int = 5) -> Text:
    """`a`, `b` and 3 more."""
    spans: list[Span] = []
    for index, each in enumerate(found[:most]):
        spans += [", ", UntrustedText(each)] if index else [UntrustedText(each)]
    if len(found) > most:
        spans.append(f" and {len(found) - most} more")
    return tuple(spans)


def many(count: int, noun: str) -> str:
    """1 team, 2 teams."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
