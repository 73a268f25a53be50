"""The page of known issues, from muster/model/known_issues.toml."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from muster.model.known_issues import KNOWN_ISSUES, KnownIssue
from muster.reference.markdown import WRITTEN

_HEAD: Final = f"""\
# Known issues

{WRITTEN}

What Muster cannot do or does not prevent, and the way round. `muster doctor STACK` names those that a setting
of your stack brings, by their id. *Untested* means read, not run; [what was tested](reference/evidence.md)
has the rest.
"""


def page() -> str:
    """The whole page."""
    parts = [_HEAD]
    for section, issues in groupby(KNOWN_ISSUES.values(), lambda each: each.section):
        parts += [f"## {section}\n", *map(_line, issues), ""]
    return "\n".join(parts)


def _line(issue: KnownIssue) -> str:
    return f'- <a id="{issue.name}"></a>**`{issue.name}`** {" ".join(_sentences(issue))}'


def _sentences(issue: KnownIssue) -> Iterator[str]:
    yield issue.effect
    if issue.instead:
        yield f"*Instead*: {issue.instead}"
    if issue.fixed_in:
        yield f"*Fixed in* {issue.fixed_in}."
