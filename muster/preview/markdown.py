"""Writes a report as one Markdown comment for GitHub or GitLab.

Untrusted text becomes a code span, in which Markdown, HTML and mentions have no effect. A comment that would
be too long leaves out whole sections, the least important first.
"""

from collections.abc import Iterator
from itertools import count
from typing import Final

from muster.preview.document import (
    Block,
    Chart,
    Items,
    Mark,
    Report,
    Section,
    Span,
    StackReport,
    Table,
    Text,
    TreeDiagram,
    TreeNode,
)

# GitHub refuses a comment of more than 65,536 characters. Bytes are counted, which are never fewer.
MAX_BYTES: Final = 60_000

# Characters that would end a code span or a table cell are replaced by similar ones. No name in a cluster
# contains them.
_CODE: Final = str.maketrans({"`": "'", "|": "¦", "\\": "∖"})
_FILLS: Final = {
    Mark.NEW: "fill:#d7f5dd,stroke:#1a7f37,color:#1f2328",
    Mark.MORE: "fill:#d7f5dd,stroke:#1a7f37,color:#1f2328",
    Mark.GONE: "fill:#ffdfdc,stroke:#cf222e,color:#1f2328,stroke-dasharray:4",
    Mark.LESS: "fill:#ffdfdc,stroke:#cf222e,color:#1f2328",
    Mark.OTHER: "fill:#fff3c4,stroke:#9a6700,color:#1f2328",
}


def format_comment(report: Report, *, longest: int = MAX_BYTES) -> str:
    """The comment, of at most `longest` bytes."""
    kept = {
        (index, place) for index, stack in enumerate(report.stacks) for place in range(len(stack.sections))
    }
    droppable = sorted(kept, key=lambda at: _cost(report, at))
    sizes = {at: len(_section(_at(report, at)).encode()) for at in kept}
    # The summaries always remain. How much room they and the list of omitted sections need is found by
    # writing them.
    text = _write(report, kept)
    while len(text.encode()) > longest and droppable:
        over = len(text.encode()) - longest
        while over > 0 and droppable:
            at = droppable.pop(0)
            kept.discard(at)
            over -= sizes[at]
        text = _write(report, kept)
    return text if len(text.encode()) <= longest else _shortest(report, longest)


def _cost(report: Report, at: tuple[int, int]) -> tuple[int, int, int]:
    return (_at(report, at).weight, -at[0], -at[1])


def _at(report: Report, at: tuple[int, int]) -> Section:
    return report.stacks[at[0]].sections[at[1]]


def _write(report: Report, kept: set[tuple[int, int]]) -> str:
    lines: list[str] = [f"**{_text(report.headline)}**", ""] if report.headline else []
    for index, stack in enumerate(report.stacks):
        lines += [f"## Muster preview: {_span(stack.name)}", "", *_summary(stack), ""]
        lost = [section.title for place, section in enumerate(stack.sections) if (index, place) not in kept]
        if lost:
            lines += [
                f"> Left out, too long for a comment: {', '.join(lost)}. The HTML page is complete.",
                "",
            ]
        lines += [_section(section) for place, section in enumerate(stack.sections) if (index, place) in kept]
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


def _summary(stack: StackReport) -> Iterator[str]:
    for index, text in enumerate(stack.summary):
        yield f"**{_text(text)}**" if index == 0 else f"- {_text(text)}"
        if index == 0 and len(stack.summary) > 1:
            yield ""


def _section(section: Section) -> str:
    body = "\n\n".join(_block(block) for block in section.blocks)
    if section.is_folded or section.is_detail:
        return f"<details><summary>{section.title}</summary>\n\n{body}\n\n</details>\n"
    return f"### {section.title}\n\n{body}\n"


def _block(block: Block) -> str:
    if isinstance(block, Table):
        rows = [block.head, tuple("---:" if head in block.figures else "---" for head in block.head)]
        rows += [tuple(_text(cell) for cell in row) for row in block.rows]
        return "\n".join(f"| {' | '.join(row)} |" for row in rows)
    if isinstance(block, Items):
        return "\n".join(f"- {_text(text)}" for text in block.texts)
    return block.caption if isinstance(block, Chart) else _mermaid(block)


def _text(text: Text) -> str:
    return "".join(_span(span) for span in text)


def _span(span: Span) -> str:
    if isinstance(span, str):
        return span
    text = span.text.translate(_CODE)
    return f"`{text}`" if text.strip() else "(empty)"


# The queue tree


def _mermaid(diagram: TreeDiagram) -> str:
    numbers = count()
    drawn = [line for root in diagram.roots for line in _node(root, next(numbers), numbers)]
    fence = "\n".join(["```mermaid", "graph LR", *drawn, "```"])
    hidden = f"\n\n{diagram.hidden} unchanged queues are not drawn." if diagram.hidden else ""
    return fence + hidden


def _node(node: TreeNode, number: int, numbers: Iterator[int]) -> Iterator[str]:
    yield f"  n{number}{_shape(node)}"
    if node.mark in _FILLS:
        yield f"  style n{number} {_FILLS[node.mark]}"
    for child in node.children:
        below = next(numbers)
        yield from _node(child, below, numbers)
        yield f"  n{number} --> n{below}"


def _shape(node: TreeNode) -> str:
    mark = "" if node.mark is Mark.SAME else f" ({node.mark})"
    label = "<br/>".join([_label(node.name.text) + mark, *(_label(note) for note in node.notes)])
    return f'["{label}"]' if node.is_team else f'(["{label}"])'


def _label(text: str) -> str:
    """Letters, digits, and the punctuation of names and amounts. Mermaid has no safe escape for other
    characters.
    """
    return "".join(each if each.isalnum() or each in " -.,→±−" else "_" for each in text)
