"""Writes a report as one Markdown comment for GitHub or GitLab.

Untrusted text becomes a code span, in which Markdown, HTML and mentions have no effect. A comment that would
be too long leaves out whole sections, the least important first.
"""

from collections.abc import Iterator
from itertools import count
from typing import Final

from muster.preview.document import (
    Answer,
    Block,
    Chart,
    Items,
    Mark,
    Report,
    Section,
    Span,
    StackReport,
    Status,
    Table,
    Text,
    TreeDiagram,
    TreeNode,
    unchanged,
)

# GitHub refuses a comment of more than 65,536 characters. Bytes are counted, which are never fewer.
MAX_BYTES: Final = 60_000

# Characters that would end a code span or a table cell are replaced by similar ones. No name in a cluster
# contains them.
_CODE: Final = str.maketrans({"`": "'", "|": "¦", "\\": "∖"})
_SIGNS: Final = {Answer.YES: "✅", Answer.LOOK: "⚠️", Answer.REFUSED: "⛔"}
_FILLS: Final = {
    Mark.NEW: "fill:#e3effc,stroke:#0a5fb4,color:#1c2128",
    Mark.MORE: "fill:#e3effc,stroke:#0a5fb4,color:#1c2128",
    Mark.GONE: "fill:#fdebe3,stroke:#a8320a,color:#1c2128,stroke-dasharray:4",
    Mark.LESS: "fill:#fdebe3,stroke:#a8320a,color:#1c2128",
    Mark.OTHER: "fill:#fdf3d3,stroke:#7a5300,color:#1c2128",
}


def format_comment(report: Report, *, longest: int = MAX_BYTES, is_drawn: bool = True) -> str:
    """The comment, of at most `longest` bytes. `is_drawn`: its reader draws Mermaid, as GitHub and GitLab do;
    otherwise the queue tree is text.
    """
    kept = {
        (index, place) for index, stack in enumerate(report.stacks) for place in range(len(stack.sections))
    }
    droppable = sorted(kept, key=lambda at: _cost(report, at))
    sizes = {at: len(_section(_at(report, at), is_drawn=is_drawn).encode()) for at in kept}
    # The summaries always remain. How much room they and the list of omitted sections need is found by
    # writing them.
    text = _write(report, kept, is_drawn=is_drawn)
    while len(text.encode()) > longest and droppable:
        over = len(text.encode()) - longest
        while over > 0 and droppable:
            at = droppable.pop(0)
            kept.discard(at)
            over -= sizes[at]
        text = _write(report, kept, is_drawn=is_drawn)
    return text if len(text.encode()) <= longest else _shortest(report, longest)


def _cost(report: Report, at: tuple[int, int]) -> tuple[int, int, int]:
    return (_at(report, at).weight, -at[0], -at[1])


def _at(report: Report, at: tuple[int, int]) -> Section:
    return report.stacks[at[0]].sections[at[1]]


def _write(report: Report, kept: set[tuple[int, int]], *, is_drawn: bool) -> str:
    lines: list[str] = [f"**{_text(report.headline)}**", ""] if report.headline else []
    for index, stack in enumerate(report.stacks):
        lines += [f"## Muster preview: {_span(stack.name)}{_badge(stack.status)}", "", *_summary(stack), ""]
        lost = [section.title for place, section in enumerate(stack.sections) if (index, place) not in kept]
        if lost:
            lines += [
                f"> Left out, too long for a comment: {', '.join(lost)}. The HTML page is complete.",
                "",
            ]
        found = [section for place, section in enumerate(stack.sections) if (index, place) in kept]
        lines += [_section(section, is_drawn=is_drawn) for section in stack.in_order(found)]
    return "\n".join(lines).rstrip("\n") + "\n"


def _shortest(report: Report, longest: int) -> str:
    """The names of as many stacks as fit, where their summaries alone are too long."""
    text = f"## Muster preview: {len(report.stacks)} stacks\n\n"
    text += "Too long for a comment. The HTML page is complete.\n\n"
    for stack in report.stacks:
        line = f"- {_span(stack.name)}\n"
        if len((text + line).encode()) > longest:
            break
        text += line
    return text


def _badge(status: Status | None) -> str:
    if status is None or status.answer is Answer.NOTHING:
        return ""
    return f" · {_SIGNS[status.answer]} {status.answer.badge.capitalize()}"


def _summary(stack: StackReport) -> Iterator[str]:
    for index, text in enumerate(stack.summary):
        yield f"**{_text(text)}**" if index == 0 else f"- {_text(text)}"
        if index == 0 and len(stack.summary) > 1:
            yield ""


def _section(section: Section, *, is_drawn: bool) -> str:
    body = "\n\n".join(_block(block, is_drawn=is_drawn) for block in section.blocks)
    if section.is_folded:
        return f"<details><summary>{section.title}</summary>\n\n{body}\n\n</details>\n"
    return f"### {section.title}\n\n{body}\n"


def _block(block: Block, *, is_drawn: bool) -> str:
    if isinstance(block, Table):
        rows = [block.head, tuple("---:" if head in block.figures else "---" for head in block.head)]
        rows += [tuple(_text(cell) for cell in row) for row in block.rows]
        return "\n".join(f"| {' | '.join(row)} |" for row in rows)
    if isinstance(block, Items):
        return "\n".join(f"- {_text(text)}" for text in block.texts)
    if isinstance(block, Chart):
        return block.caption
    tree = _mermaid(block) if is_drawn else _text_tree(block)
    return f"{tree}\n\n{block.hidden} unchanged queues are not drawn." if block.hidden else tree


def _text(text: Text) -> str:
    return "".join(_span(span) for span in text)


def _span(span: Span) -> str:
    if isinstance(span, str):
        return span
    text = span.text.translate(_CODE)
    return f"`{text}`" if text.strip() else "(empty)"


# The queue tree


def _text_tree(diagram: TreeDiagram) -> str:
    """For a reader that shows a block of code as it is."""
    return "\n".join(["```text", *_lines(diagram.roots, diagram.folded, ""), "```"])


def _lines(nodes: tuple[TreeNode, ...], folded: tuple[TreeNode, ...], indent: str) -> Iterator[str]:
    for node in nodes:
        mark = "" if node.mark is Mark.SAME else f" ({node.mark})"
        notes = f": {', '.join(node.notes)}" if node.notes else ""
        yield f"{indent}{node.name.text}{mark}{notes}".translate(_CODE)
        yield from _lines(node.children, node.folded, f"{indent}  ")
    if folded:
        yield f"{indent}({unchanged(folded)})"


def _mermaid(diagram: TreeDiagram) -> str:
    numbers = count()
    drawn = [line for root in diagram.roots for line in _node(root, next(numbers), numbers)]
    if diagram.folded:
        drawn.append(_stub(next(numbers), diagram.folded))
    return "\n".join(["```mermaid", "graph LR", *drawn, "```"])


def _node(node: TreeNode, number: int, numbers: Iterator[int]) -> Iterator[str]:
    yield f"  n{number}{_shape(node)}"
    if node.mark in _FILLS:
        yield f"  style n{number} {_FILLS[node.mark]}"
    for child in node.children:
        below = next(numbers)
        yield from _node(child, below, numbers)
        yield f"  n{number} --> n{below}"
    if node.folded:
        below = next(numbers)
        yield _stub(below, node.folded)
        yield f"  n{number} --> n{below}"


def _stub(number: int, folded: tuple[TreeNode, ...]) -> str:
    return f'  n{number}["{unchanged(folded)}"]'


def _shape(node: TreeNode) -> str:
    mark = "" if node.mark is Mark.SAME else f" ({node.mark})"
    label = "<br/>".join([_label(node.name.text) + mark, *(_label(note) for note in node.notes)])
    return f'["{label}"]' if node.is_team else f'(["{label}"])'


def _label(text: str) -> str:
    """Letters, digits, and the punctuation of names and amounts. Mermaid has no safe escape for other
    characters.
    """
    return "".join(each if each.isalnum() or each in " -.,→±−" else "_" for each in text)
