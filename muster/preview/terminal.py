"""Writes a report for a terminal: the answer in words, colour and bars, and no markup.

What a page folds is one line here, unless all of it is wanted.
"""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from muster.columns import GAP, draw_bar, fit_columns, lay_out, line_width
from muster.preview.banner import plain
from muster.preview.document import (
    Answer,
    Bar,
    Block,
    Chart,
    Items,
    Mark,
    Report,
    Section,
    StackReport,
    Table,
    TreeDiagram,
    TreeNode,
    unchanged,
)
from muster.preview.sections.resources import WARNINGS as WARNINGS

_ANSWER_COLOURS: Final[Mapping[Answer, str]] = {
    Answer.YES: "32",
    Answer.LOOK: "33",
    Answer.REFUSED: "31",
    Answer.NOTHING: "2",
}
_COLOURS: Final[Mapping[Mark, str]] = {
    Mark.NEW: "32",
    Mark.MORE: "32",
    Mark.GONE: "31",
    Mark.LESS: "31",
    Mark.OTHER: "33",
    Mark.RISK: "33",
}
_BOLD, _DIM = "1", "2"
_BAR: Final = 20
_SHORTEST_BAR: Final = 10
_INDENT: Final = 2
_NARROWEST: Final = 40

_Pieces = Sequence[tuple[str, str]]
"""Texts that follow each other, each with its colour."""


def format_terminal(report: Report, *, columns: int, has_colour: bool, has_details: bool) -> str:
    """Lines of at most `columns` characters where words can be broken."""
    writer = _Writer(max(columns, _NARROWEST), has_colour=has_colour, has_details=has_details)
    head = [*writer.flow([(plain(report.headline), _BOLD)]), ""] if report.headline else []
    return "\n".join([*head, *(line for stack in report.stacks for line in writer.stack(stack))]) + "\n"


class _Writer:
    def __init__(self, columns: int, *, has_colour: bool, has_details: bool) -> None:
        self._columns, self._has_colour, self._has_details = columns, has_colour, has_details

    def paint(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._has_colour and code and text else text

    def stack(self, stack: StackReport) -> Iterator[str]:
        answer, colour = "", ""
        if stack.status:
            answer, colour = stack.status.answer.badge, _ANSWER_COLOURS[stack.status.answer]
        why = f" ({stack.status.why})" if stack.status and stack.status.why else ""
        yield from self.flow([(stack.name.text, _BOLD), (": ", ""), (answer, colour), (why, "")])
        if stack.banner:
            yield from self.flow(
                [
                    piece
                    for each in stack.banner
                    for piece in ((plain(each.text), _COLOURS.get(each.mark, "")), (each.after, ""))
                ]
            )
        else:
            yield from (line for text in stack.summary for line in self.flow([(plain(text), "")]))
        yield ""
        folded = []
        for section in stack.sections:
            if section.is_folded and section.title != WARNINGS and not self._has_details:
                folded.append(f"{section.title} ({section.size})" if section.size else section.title)
            else:
                yield from self._section(section)
        if folded:
            yield from textwrap.wrap(f"More with --details: {'; '.join(folded)}.", self._columns)
            yield ""

    def flow(self, pieces: _Pieces) -> Iterator[str]:
        """Lines of text whose words keep their colours."""
        whole, start = "".join(text for text, _ in pieces), 0
        for line in textwrap.wrap(whole, self._columns):
            start = whole.index(line, start)
            end, at, painted = start + len(line), 0, ""
            for text, code in pieces:
                painted += self.paint(whole[max(at, start) : min(at + len(text), end)], code)
                at += len(text)
            yield painted

    def _section(self, section: Section) -> Iterator[str]:
        yield self.paint(section.title, _BOLD)
        for block in section.blocks:
            yield from (f"{_INDENT * ' '}{line}" for line in self._block(block))
            yield ""

    def _block(self, block: Block) -> Iterator[str]:
        match block:
            case Table():
                yield from self._table(block)
            case Items():
                for text in block.texts:
                    yield from self._wrapped(plain(text), "- ", "  ")
            case Chart():
                yield from self._wrapped(block.caption, "", "")
            case TreeDiagram():
                yield from self._tree(block.roots, block.folded, "")
                if block.hidden:
                    yield f"{block.hidden} unchanged queues are not drawn."

    def _wrapped(self, text: str, first: str, next_: str) -> list[str]:
        return textwrap.wrap(
            text,
            self._columns - _INDENT,
            initial_indent=first,
            subsequent_indent=next_,
            # An address is copied, and is left whole.
            break_long_words=False,
            break_on_hyphens=False,
        ) or [""]

    def _table(self, table: Table) -> Iterator[str]:
        rows = [tuple(plain(cell) for cell in row) for row in table.rows]
        room = self._columns - _INDENT
        least = len(GAP) + _SHORTEST_BAR if table.bars else 0
        widths = fit_columns(table.head, rows, table.figures, room=room - least, minor=table.minor)
        if not widths:
            yield from self._stacked(table, rows)
            return
        length = min(_BAR, room - line_width(widths) - len(GAP))
        for line in lay_out(table.head, table.head, widths, table.figures):
            yield self.paint(line.rstrip(), _DIM)
        for index, row in enumerate(rows):
            colour = _COLOURS.get(table.marks[index], "") if table.marks else ""
            first, *rest = lay_out(table.head, row, widths, table.figures)
            bar = GAP + self._bar(table.bars[index], length) if table.bars else ""
            yield (self.paint(first, colour) + bar).rstrip()
            yield from (self.paint(line.rstrip(), colour) for line in rest)
        notes = ["█ guaranteed, ▒ gained or lost, · can borrow."] if table.bars else []
        if left_out := [name for place, name in enumerate(table.head) if place not in widths]:
            notes.append(f"A wider terminal also shows: {', '.join(left_out)}.")
        if notes:
            yield from (self.paint(line, _DIM) for line in self._wrapped(" ".join(notes), "", ""))

    def _stacked(self, table: Table, rows: list[tuple[str, ...]]) -> Iterator[str]:
        """A table that is too wide, a row below another."""
        for index, row in enumerate(rows):
            colour = _COLOURS.get(table.marks[index], "") if table.marks else ""
            yield self.paint(row[0], colour or _BOLD)
            for head, cell in zip(table.head[1:], row[1:], strict=True):
                if cell:
                    yield from self._wrapped(f"{head}: {cell}", "  ", "    ")

    def _bar(self, bar: Bar, length: int) -> str:
        """What stays is full, what changes is shaded, what may be borrowed is dotted."""
        low, high = sorted((bar.before, bar.after))
        ends = (low, high, max(bar.reach, high))
        kept, moved, reach = draw_bar(ends, "█▒·", scale=bar.scale, length=length)
        change = "31" if bar.after < bar.before else "32"
        return kept + self.paint(moved, change) + self.paint(reach, _DIM)

    def _tree(self, nodes: tuple[TreeNode, ...], folded: tuple[TreeNode, ...], indent: str) -> Iterator[str]:
        for node in nodes:
            mark = "" if node.mark is Mark.SAME else f" ({node.mark})"
            notes = f": {', '.join(node.notes)}" if node.notes else ""
            yield self.paint(f"{indent}{node.name.text}{mark}{notes}", _COLOURS.get(node.mark, ""))
            yield from self._tree(node.children, node.folded, f"{indent}  ")
        if folded:
            yield self.paint(f"{indent}({unchanged(folded)})", _DIM)
