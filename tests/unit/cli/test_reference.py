"""The reference page says what the commands say."""

from pathlib import Path

from muster.cli.reference import page

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "cli.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), (
        f"write it anew: python -m muster.cli.reference {PAGE.name}"
    )
