"""The real Kueue with its webhooks on a real API server, as processes of this host: no node, no container."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from localplane import bare
from localplane.bare import ControlPlane
from localplane.bare.kueue import define
from model.render import kueue
from tests.unit.model.kueue_files import everything

_CHART = "kueue-chart"
_NEEDED = (("etcd", "kube-apiserver", "kueue"), ("kueue-crds", "provisioningrequest-crd", _CHART))


@pytest.fixture(scope="session")
def kueue_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server that Kueue stands in front of, with every gate on that a stack can switch on."""
    programs = bare.found(*_NEEDED)
    if programs is None:
        pytest.skip(
            "no etcd, kube-apiserver and kueue: build them with `make build`, or set MUSTER_ARTIFACTS"
        )
    (full, _) = everything()
    config, chart = kueue.manager_config(full), programs.assets[_CHART]
    with bare.control_plane(tmp_path_factory.mktemp("kueue-api"), programs) as plane:
        define(plane, programs)
        with bare.kueue(plane, programs, config=config, chart=chart):
            yield plane
