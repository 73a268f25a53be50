"""An API server that serves Kueue's kinds, without a controller."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import built
from tests.integration.conftest import ApiServer, api_server_in
from tests.waiting import eventually

_KINDS = ("clusterqueues", "localqueues", "workloads")


@pytest.fixture(scope="package")
def kueue_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """A server with Kueue's queues and Workloads; Kueue itself does not run, so nothing converts or decides.
    It is not the shared one, whose other readers take it for a cluster without Kueue.
    """
    chart = built.chart("kueue")
    files = (chart / "templates" / "crd" / f"kueue.x-k8s.io_{kind}.yaml" for kind in _KINDS)
    with api_server_in(tmp_path_factory.mktemp("kueue-kinds")) as server:
        server.define([_definition(file) for file in files])
        for kind in _KINDS:
            path = f"/apis/kueue.x-k8s.io/v1beta2/{kind}"
            eventually(f"{kind} are served", partial(server.call, "GET", path))
        yield server


def _definition(path: Path) -> dict[str, Any]:
    """The CRD of a chart's template, without what Helm would fill in: labels, and the conversion webhook."""
    text = path.read_text(encoding="utf-8")
    lines = text[text.index("apiVersion:") :].splitlines()
    found = yaml.safe_load("\n".join(line for line in lines if "{{" not in line))
    found["spec"].pop("conversion", None)
    found["metadata"] = {"name": found["metadata"]["name"], "annotations": {}}
    return dict(found)
