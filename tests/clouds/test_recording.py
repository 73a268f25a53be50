"""The recording charts know paths that their originals have, and Helm refuses all others."""

import json
from pathlib import Path
from typing import Any

import pytest

from muster.artifacts.catalogue import catalogue
from tests import built, envtest
from tests.clouds import recording
from tests.clouds.conftest import PROGRAMS
from tests.clouds.engine import ROOT, workspace
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


def test_helm_records_what_a_recording_chart_knows_and_refuses_the_rest(tmp_path: Path) -> None:
    programs = built.programs(("etcd", "kube-apiserver"))
    chart = recording.chart(tmp_path / "chart", name="c", version="1.0.0", paths=["driver.enabled"])
    release = {"name": "told", "chart": str(chart), "namespace": "default"}
    known = release | {"values": {"driver": {"enabled": True}}}
    unknown = release | {"values": {"driver": {"enabled": True, "colour": "red"}}}
    resources = tmp_path / "resources.json"
    (tmp_path / "plane").mkdir()
    with envtest.control_plane(tmp_path / "plane", programs) as plane:
        environment = {
            "INLINE": str(resources),
            "KUBECONFIG": str(plane.kubeconfig()),
            "PYTHONPATH": str(ROOT),
            "PULUMI_PYTHON_CMD": str(ROOT / ".venv" / "bin" / "python"),
        }
        engine = workspace(tmp_path / "ws", PROGRAMS / "inline", "t", environment)
        resources.write_text(_resource(unknown))
        assert "colour" in engine.up(fails=True).output
        assert not plane.call("GET", _RECORDS)["items"]

        resources.write_text(_resource(known))
        engine.up()
        (record,) = plane.call("GET", _RECORDS)["items"]
        assert json.loads(record["data"]["values.json"])["driver"] == {"enabled": True}


_RECORDS = "/api/v1/namespaces/default/configmaps"


def _resource(inputs: dict[str, Any]) -> str:
    return json.dumps([{"name": "told", "type": "kubernetes:helm.sh/v3:Release", "inputs": inputs}])
