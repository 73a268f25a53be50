"""An API server that serves Kueue's kinds, and nobody who acts on them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import built
from tests.integration.conftest import ApiServer

_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_SECONDS = 60
_KINDS = ("clusterqueues", "localqueues", "workloads")


@pytest.fixture(scope="session")
def kueue_api(api_server: ApiServer) -> Iterator[ApiServer]:
    """The server with Kueue's queues and Workloads; without Kueue itself nobody converts or decides."""
    chart = built.chart("kueue")
    for kind in _KINDS:
        definition = _definition(chart / "templates" / "crd" / f"kueue.x-k8s.io_{kind}.yaml")
        api_server.apply(definition, f"{_CRDS}/{definition['metadata']['name']}")
    for kind in _KINDS:
        _until(partial(api_server.call, "GET", f"/apis/kueue.x-k8s.io/v1beta2/{kind}"))
    yield api_server
    for kind in _KINDS:
        api_server.call("DELETE", f"{_CRDS}/{kind}.kueue.x-k8s.io")


def _until(probe: Callable[[], Any]) -> Any:
    """What the probe answers, as soon as the server knows the kind."""
    end = time.monotonic() + _SECONDS
    while True:
        try:
            return probe()
        except OSError:
            if time.monotonic() > end:
                raise
        time.sleep(0.1)


def _definition(path: Path) -> dict[str, Any]:
    """The CRD of a chart's template, without what Helm would fill in: labels, and the conversion webhook."""
    text = path.read_text(encoding="utf-8")
    lines = text[text.index("apiVersion:") :].splitlines()
    found = yaml.safe_load("\n".join(line for line in lines if "{{" not in line))
    found["spec"].pop("conversion", None)
    found["metadata"] = {"name": found["metadata"]["name"], "annotations": {}}
    return dict(found)
