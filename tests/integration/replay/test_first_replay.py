"""The tutorial of a quota change by a recording, with the real player."""

from pathlib import Path

from muster.local.builder.cache import cache_root
from muster.replay.player import PROGRAM
from tests import built
from tests.typed_page import type_page


def test_the_page_shows_what_its_commands_print(tmp_path: Path) -> None:
    if built.program(PROGRAM) is None:
        built.absent(PROGRAM, build=f"muster local build --only {PROGRAM}")
    cache = {"MUSTER_CACHE": str(cache_root())}
    type_page("first-replay.md", folder=tmp_path, environment=cache, timeout=900)
