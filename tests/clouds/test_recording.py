"""The recording charts know paths that their originals have, and Helm refuses all others."""

import json
from pathlib import Path

import pytest

from muster.artifacts.catalogue import catalogue
from tests.clouds import recording
from tests.unit.model import chart_values


@pytest.mark.parametrize(
    ("name", "paths"),
    [("gpu-operator", recording.GPU_OPERATOR), ("kuberay", recording.KUBERAY), ("kai", recording.KAI)],
)
def test_a_recording_chart_knows_only_paths_that_its_original_has(name: str, paths: tuple[str, ...]) -> None:
    published = chart_values.published(catalogue().charts[name].values)
    if not published.is_file():
        return
    theirs = chart_values.read(published)
    for path in paths:
        here = theirs
        for step in path.split("."):
            assert step in here, path
            here = here[step]
            if not here:
                break


def test_a_recording_chart_is_closed_at_every_level(tmp_path: Path) -> None:
    folder = recording.chart(tmp_path / "chart", name="c", version="1.0.0", paths=["driver.enabled"])
    schema = json.loads((folder / "values.schema.json").read_text())
    assert schema["additionalProperties"] is False
    assert schema["properties"]["driver"]["additionalProperties"] is False
    assert set(schema["properties"]["driver"]["properties"]) == {"enabled"}
