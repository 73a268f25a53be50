"""What a report is made of, before it is Markdown or HTML.

Decides the one difference that keeps markup whole: our own words are `str`, and everything that a user, a
file or the engine wrote is a `Name`, which a writer may only put where it stays text.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from muster.live.sanitize import sanitize_line


@dataclass(frozen=True, slots=True, order=True)
class UntrustedText:
    """Foreign text, on one line and without what cannot be seen."""

    text: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", sanitize_line(self.text, longest=600))


Span = str | UntrustedText
Text = tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """`head` in our words; every row has as many cells."""

    head: tuple[str, ...]
    rows: tuple[tuple[Text, ...], ...]


@dataclass(frozen=True, slots=True)
class Items:
    """A list of sentences."""

    texts: tuple[Text, ...]


class Mark(StrEnum):
    """What happens to a node of the queue tree."""

    SAME = "same"
    NEW = "new"
    GONE = "gone"
    MORE = "more"
    LESS = "less"
    OTHER = "changed"


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A node of the tree as it is drawn: `notes` are its figures, as plain text."""

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
    """The queue tree. `hidden`: how many nodes that do not change were left out to keep it readable."""

    roots: tuple[TreeNode, ...]
    hidden: int


Block = Table | Items | TreeDiagram


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a report. The smallest `weight` goes first where room is short; it goes as a whole."""

    title: str
    weight: int
    blocks: tuple[Block, ...]
    is_folded: bool = False


@dataclass(frozen=True, slots=True)
class StackReport:
    """What is told about one stack."""

    name: UntrustedText
    verdict: tuple[Text, ...]
    sections: tuple[Section, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """All stacks, in the order of their names; `headline` stands above several."""

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
