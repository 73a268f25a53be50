"""The tutorial of a first preview."""

from pathlib import Path

from tests.typed_page import type_page


def test_the_page_shows_what_its_commands_print(tmp_path: Path) -> None:
    type_page("first-preview.md", folder=tmp_path, environment={}, timeout=600)
