"""The structure of a report, before it is written as Markdown or HTML.

Text of Muster is `str`. Everything that a user, a file or the engine wrote is `UntrustedText`, which a writer
has to escape, so it cannot become markup.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from muster.model.quantities import many
from muster.printable import sanitize_line


@dataclass(frozen=True, slots=True, order=True)
class UntrustedText:
    """Text of unknown origin, on one line and without invisible characters."""

    text: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", sanitize_line(self.text, longest=600))


Span = str | UntrustedText
Text = tuple[Span, ...]


class Mark(StrEnum):
    """What a change is for the one it concerns. A writer shows it as a colour and as a sign."""

    SAME = "same"
    NEW = "new"
    GONE = "gone"
    MORE = "more"
    LESS = "less"
    OTHER = "changed"
    RISK = "risk"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """The quota of a queue in one pool as a picture, in the pool's unit. `reach` is what the queue could use
    at most, `used` what it uses now, None where that is unknown. `scale` is the full width. `label` is the
    picture in words.
    """

    before: int
    after: int
    reach: int
    used: int | None
    scale: int
    label: str


@dataclass(frozen=True, slots=True)
class Table:
    """`head` is text of Muster. Every row has as many cells. `figures` names the columns of figures, which
    are right-aligned. `marks` and `bars` have one entry for each row, or none at all. `minor`: what a narrow
    terminal leaves out, the first one first.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[Text, ...], ...]
    figures: tuple[str, ...] = ()
    marks: tuple[Mark, ...] = ()
    bars: tuple[Bar, ...] = ()
    minor: tuple[str, ...] = ()

    @property
    def bar_column(self) -> int | None:
        """Bars stand before the figures."""
        first = (index for index, head in enumerate(self.head) if head in self.figures)
        return next(first, len(self.head)) if self.bars else None


@dataclass(frozen=True, slots=True)
class Items:
    """A list of sentences."""

    texts: tuple[Text, ...]


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A node as it is drawn. `notes` are its amounts, as plain text. `folded` are the children that do not
    change and have nothing below them that changes.
    """

    name: UntrustedText
    is_team: bool
    mark: Mark
    notes: tuple[str, ...]
    children: tuple["TreeNode", ...]
    folded: tuple["TreeNode", ...] = ()

    def size(self) -> int:
        """The number of nodes, with all below."""
        return 1 + sum(each.size() for each in (*self.children, *self.folded))


@dataclass(frozen=True, slots=True)
class TreeDiagram:
    """The queue tree. `folded` are the roots that do not change. `hidden`: how many unchanged nodes a tree
    leaves out that is too large for them.
    """

    roots: tuple[TreeNode, ...]
    folded: tuple[TreeNode, ...] = ()
    hidden: int = 0


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
    first.
    """

    title: str
    weight: int
    blocks: tuple[Block, ...]
    is_folded: bool = False

    @property
    def size(self) -> int:
        """The number of rows and sentences."""
        rows = sum(len(each.rows) for each in self.blocks if isinstance(each, Table))
        return rows + sum(len(each.texts) for each in self.blocks if isinstance(each, Items))


class Answer(StrEnum):
    """What a report answers to the person who approves the change."""

    YES = "yes"
    LOOK = "look"
    REFUSED = "refused"
    NOTHING = "nothing changes"

    @property
    def badge(self) -> str:
        """What a report says in its first line."""
        return "needs review" if self is Answer.LOOK else self.value


@dataclass(frozen=True, slots=True)
class Status:
    """The answer, and why in a few words of Muster."""

    answer: Answer
    why: str


@dataclass(frozen=True, slots=True)
class Phrase:
    """A part of the banner, and what separates it from the next one."""

    text: Text
    mark: Mark
    after: str = ""


@dataclass(frozen=True, slots=True)
class StackReport:
    """The report of one stack. `summary` is always shown, and its first line is the most important one.
    `banner` is that line in parts, `facts` are the sentences behind it.
    """

    name: UntrustedText
    summary: tuple[Text, ...]
    sections: tuple[Section, ...]
    status: Status | None = None
    banner: tuple[Phrase, ...] = ()
    facts: tuple[Text, ...] = ()

    def in_order(self, sections: Iterable[Section]) -> Iterator[Section]:
        """These sections with the facts: what is folded comes last."""
        found = tuple(sections)
        yield from (each for each in found if not each.is_folded)
        if self.facts:
            yield Section("In sentences", 0, (Items(self.facts),), is_folded=True)
        yield from (each for each in found if each.is_folded)


@dataclass(frozen=True, slots=True)
class Report:
    """All stacks, in the order of their names. With several stacks, `headline` comes first."""

    stacks: tuple[StackReport, ...]
    headline: Text = ()


def row(*cells: Span | Text) -> tuple[Text, ...]:
    """The cells of a table's row; one of a single span needs no brackets."""
    return tuple(cell if isinstance(cell, tuple) else (cell,) for cell in cells)


def join_names(found: tuple[str, ...], *, most: int = 5) -> Text:
    """`a`, `b` and 3 more."""
    spans: list[Span] = []
    for index, each in enumerate(found[:most]):
        spans += [", ", UntrustedText(each)] if index else [UntrustedText(each)]
    if len(found) > most:
        spans.append(f" and {len(found) - most} more")
    return tuple(spans)


def unchanged(folded: tuple[TreeNode, ...]) -> str:
    """`3 queues unchanged`, with all below."""
    return f"{many(sum(node.size() for node in folded), 'queue')} unchanged"
