"""Every shipped stack that takes Kueue, whole: previewed, made, left alone, refreshed, protected, destroyed.

The cloud half goes to the stand-ins, the Kubernetes half to the real API server that they hand out. Minutes a
stack, so only where MUSTER_WHOLE is set; test_whole_programs.py previews the same programs everywhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import stackconfig
from model import names
from model.clusters import EksCluster, GkeCluster
from model.stack import Stack
from tests.clouds.cluster import Standing, standing
from tests.clouds.cluster.cluster import needed
from tests.clouds.engine import Workspace, checkout, workspace
from tests.clouds.stack_files import OFFLINE, edited
from tests.clouds.standin.serve import Clouds

pytestmark = pytest.mark.skipif(
    "MUSTER_WHOLE" not in os.environ, reason="minutes a stack: set MUSTER_WHOLE=1"
)

_QUEUES: Final = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues"
# What a destroyed stack must not leave in a cluster.
_LISTS: Final = (
    *("/api/v1/namespaces", "/api/v1/namespaces/kube-system/configmaps", "/apis/apps/v1/deployments"),
    *(f"/apis/rbac.authorization.k8s.io/v1/{kind}" for kind in ("clusterroles", "clusterrolebindings")),
    *(
        f"/apis/admissionregistration.k8s.io/v1/{kind}"
        for kind in (
            *("validatingwebhookconfigurations", "mutatingwebhookconfigurations"),
            *("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
        )
    ),
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/apis/apiregistration.k8s.io/v1/apiservices",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
)


@pytest.fixture(scope="module")
def cluster(serving: Clouds, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    if needed() is None:
        pytest.skip("no etcd, kube-apiserver, kueue, kwok, ...: build them with `make build`")
    with standing(tmp_path_factory.mktemp("cluster"), serving) as made:
        yield made


@pytest.mark.parametrize("stack", OFFLINE, ids=lambda stack: stack.stem)
def test_a_shipped_stack_is_previewed_applied_whole_left_alone_protected_and_destroyed(
    stack: Path, clouds: Clouds, cluster: Standing, artifacts: Path, tmp_path: Path
) -> None:
    described = stackconfig.load(stack)
    file, engine = _engine(stack, clouds, cluster, artifacts, tmp_path)
    before = _everything(cluster)

    # Previewed before anything stands, the cluster included.
    made = engine.run("up", "--yes")
    assert {step.op for step in made.changes} == {"create"}
    _assert_stands(cluster, described)
    asked = [*clouds.gcp.log, *clouds.aws.log]

    engine.up("--refresh", "--expect-no-changes")
    assert [*clouds.gcp.log, *clouds.aws.log] == asked

    if _is_protected(described):
        there = _everything(cluster)
        refused = engine.destroy(fails=True)
        assert "set muster:cluster.protect to false and run pulumi up" in refused.output
        assert [*clouds.gcp.log, *clouds.aws.log] == asked
        # KubeRay's tree is a component of the provider's own making, and the engine does not count what is in
        # one to what a guard depends on. Stacks of users take KubeRay's chart, a resource like others.
        assert all("kuberay" in name for _, name in there - _everything(cluster))
        edited(file, file, {"muster:cluster.protect": False})
        engine.up()

    engine.destroy()
    assert not clouds.gcp.standing
    assert not clouds.aws.standing
    assert not engine.state()
    assert _everything(cluster) - before == set()


def _engine(
    stack: Path, clouds: Clouds, cluster: Standing, artifacts: Path, folder: Path
) -> tuple[Path, Workspace]:
    """The stack's file, and the engine on it with the cluster behind both clouds."""
    cluster.handed.to(clouds)
    local = edited(stack, folder / stack.name, {"muster:artifacts": "local"})
    project = checkout(folder / "project", local)
    engine = workspace(folder / "ws", project, stack.stem.removeprefix("Pulumi."), dict(clouds.environment))
    engine.environment |= {
        "MUSTER_ARTIFACTS": str(artifacts),
        **cluster.handed.environment(folder, engine.environment["PATH"]),
    }
    return project / "stacks" / stack.name, engine


def _assert_stands(cluster: Standing, stack: Stack) -> None:
    teams = {team.name for _, team in stack.teams()}
    assert teams <= {key.rpartition("/")[2] for key in cluster.objects(_QUEUES)}
    deployments = cluster.objects("/apis/apps/v1/deployments")
    assert deployments
    for name, deployment in deployments.items():
        assert deployment["status"].get("availableReplicas") == deployment["spec"]["replicas"], name
    nodes = cluster.objects("/api/v1/nodes")
    for name, pod in cluster.objects("/api/v1/pods").items():
        labels = nodes[pod["spec"]["nodeName"]]["metadata"]["labels"]
        assert labels[names.POOL_LABEL] == names.SYSTEM_POOL, name


def _is_protected(stack: Stack) -> bool:
    return isinstance(stack.cluster, GkeCluster | EksCluster) and stack.cluster.protect


def _everything(cluster: Standing) -> set[tuple[str, str]]:
    """All but what the API server makes for itself, some of it after it has begun to answer."""
    return {
        (path, name)
        for path in _LISTS
        for name, each in cluster.objects(path).items()
        if "kubernetes.io/bootstrapping" not in each["metadata"].get("labels", {})
        and not name.startswith("system-")
    }
