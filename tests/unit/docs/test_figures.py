"""Every page with measured times names the script that measured them and the day. Decisions are records of
their own day.
"""

import re
from pathlib import Path
from typing import Final

import pytest

from tests.unit.docs.blocks import ROOT

_TIME: Final = re.compile(r"\d (?:ms|µs)\b")
_SCRIPT: Final = re.compile(r"`(?:python -m bench\.[\w.]+|make (?:bench|soak))\b|tests/[\w/]+\.py")
_DAY: Final = re.compile(r"\b20\d\d-\d\d-\d\d\b")
MEASURED: Final = [
    page
    for page in sorted(ROOT.glob("docs/**/*.md"))
    if page.parent.name == "bench"
    or (page.parent.name != "decisions" and _TIME.search(page.read_text(encoding="utf-8")))
]


@pytest.mark.parametrize("page", MEASURED, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_with_figures_names_their_script_and_day(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert _SCRIPT.search(text), "name the script: `python -m bench.NAME`"
    assert _DAY.search(text), "name the day, such as 2026-11-25"
