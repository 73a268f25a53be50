"""Each importer takes files that were changed at random, and its own; ten minutes of it are the nightly's."""

from pathlib import Path
from random import Random

import pytest

from tests.fuzz.importers import Importer, importers
from tests.fuzz.mutations import attempt, changed

_IMPORTERS = importers()


@pytest.mark.parametrize("importer", _IMPORTERS.values(), ids=list(_IMPORTERS))
def test_a_changed_file_gets_an_answer_or_one_error(importer: Importer, tmp_path: Path) -> None:
    for number in range(30):
        attempt(importer, changed(importer.seeds, Random(number)), tmp_path)


@pytest.mark.parametrize("importer", _IMPORTERS.values(), ids=list(_IMPORTERS))
def test_what_is_changed_was_whole(importer: Importer, tmp_path: Path) -> None:
    """Otherwise every changed file would be refused in its first line."""
    for number, content in enumerate(importer.seeds):
        path = tmp_path / f"{number}{importer.ending}"
        path.write_bytes(content)
        importer.read(path)
