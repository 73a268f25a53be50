"""The page for those on call names every alert that a stack can have, and no other."""

import re
from pathlib import Path

from muster.model.gangpolicy import GangPolicy
from muster.render.observability import alerts

PAGE = Path(__file__).resolve().parents[2] / "docs" / "on-call.md"


def test_the_page_has_every_alert() -> None:
    named = re.findall(r"\[`(Muster\w+)`\]", PAGE.read_text(encoding="utf-8"))
    assert sorted(named) == sorted(alert.name for alert in alerts(GangPolicy()))
