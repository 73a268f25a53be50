"""Writes the page on CNCF's AI conformance.

    python -m tests.matrix.conformance docs/reference/ai-conformance.md

conformance.toml has each requirement with the tests that show it, or with what is not shown here and why.
"""

import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

DATA: Final = Path(__file__).with_name("conformance.toml")
_HEAD: Final = """\
# Kubernetes AI conformance

<!-- Written by `python -m tests.matrix.conformance docs/reference/ai-conformance.md` from
`tests/matrix/conformance.toml`; do not edit it. -->

What a test here shows of the checklist of CNCF for Kubernetes 1.37. Source: cncf/k8s-ai-conformance at
287b44f0, read 2026-11-29. The checklist certifies platforms; Muster is installed on one and is not certified.
No part of Muster has run on a real cloud.

| Requirement | Level | It asks for | Shown by | Not shown here |
|---|---|---|---|---|"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """`tests`: file::function. `missing`: what no test shows and why, "" where the tests show all of it."""

    id: str
    level: str
    asks: str
    tests: tuple[str, ...] = ()
    missing: str = ""


def load() -> list[Requirement]:
    tables = tomllib.loads(DATA.read_text(encoding="utf-8"))["requirement"]
    return [Requirement(**{**each, "tests": tuple(each.get("tests", ()))}) for each in tables]


def page() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *_rows(), ""])


def _rows() -> Iterator[str]:
    for each in load():
        files = ", ".join(
            f"`{file}`" for file in dict.fromkeys(test.partition("::")[0] for test in each.tests)
        )
        yield f"| {each.id} | {each.level} | {each.asks} | {files or 'no test'} | {each.missing} |"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
