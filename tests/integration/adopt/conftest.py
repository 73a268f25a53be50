"""One control plane with the real Kueue, which no stack of Muster's installed."""

from collections.abc import Iterator
from typing import Any

import pytest

from muster.config import load
from muster.render import kueue
from tests import built, envtest
from tests.clouds.engine import ROOT
from tests.envtest.kueue import definitions
from tests.integration.adopt.world import World

_CHART = "kueue-chart"
NEEDED = (("etcd", "kube-apiserver", "kueue"), ("kueue-crds", "provisioningrequest-crd", _CHART))
# What Muster's own configuration adds to Kueue's.
_OURS = ("manageJobsWithoutQueueName", "managedJobsNamespaceSelector", "waitForPodsReady")
_PROGRAM = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {
        "name": "kueue-controller-manager",
        "namespace": "kueue-system",
        "labels": {
            "app.kubernetes.io/name": "kueue",
            "control-plane": "controller-manager",
            "app.kubernetes.io/version": "v0.19.2",
        },
    },
    "spec": {
        "selector": {"matchLabels": {"control-plane": "controller-manager"}},
        "template": {
            "metadata": {"labels": {"control-plane": "controller-manager"}},
            "spec": {"containers": [{"name": "manager", "image": "registry.k8s.io/kueue/kueue:v0.19.2"}]},
        },
    },
}


def configuration() -> dict[str, Any]:
    """Kueue's, without what Muster adds to it."""
    config = kueue.manager_config(load(ROOT / "tests" / "unit" / "model" / "everything.yaml"))
    return {key: value for key, value in config.items() if key not in _OURS}


@pytest.fixture(scope="package")
def _world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    programs = built.programs(*NEEDED)
    folder = tmp_path_factory.mktemp("adopt")
    with envtest.control_plane(folder, programs, kinds=definitions(programs)) as plane:
        chart = programs.assets[_CHART]
        with envtest.kueue(plane, programs, config=configuration(), chart=chart):
            # As far as anyone can see, its chart installed it.
            plane.call("POST", "/apis/apps/v1/namespaces/kueue-system/deployments", _PROGRAM)
            yield World(plane)


@pytest.fixture
def world(_world: World) -> Iterator[World]:
    yield _world
    _world.clear()
