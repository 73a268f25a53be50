"""Every shipped stack of a cloud, whole: previewed, made, left alone, refreshed, protected, destroyed.

`make soak` applies those for trials, and one with ComputeClasses.
The cloud half goes to the stand-ins, the Kubernetes half to the real API server that they hand out. Charts
come from a folder, as they do for a user whose cluster reaches no registry; images are named and not started.
"""

from pathlib import Path
from typing import Final

import pytest

from muster import config
from muster.model import names
from muster.model.clusters import EksCluster, GkeCluster
from muster.model.stack import Scheduler, Stack
from tests.clouds.cluster import Standing
from tests.clouds.engine import ROOT, Workspace, checkout, workspace
from tests.clouds.stack_files import OWN, SHIPPED, completed, edited
from tests.clouds.standin.serve import Clouds
from tests.faults.seeds import is_soak
from tests.waiting import eventually

_QUEUES: Final = {
    Scheduler.KUEUE: "/apis/kueue.x-k8s.io/v1beta2/clusterqueues",
    Scheduler.KAI: "/apis/scheduling.run.ai/v2/queues",
}
_KINDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
# They outlive their stack: with one, every object of it would go (docs/known-issues.md).
_KEPT: Final = frozenset(
    {
        *("muster.dev", "autoscaling.x-k8s.io", "ray.io", "scheduling.run.ai", "kai.scheduler"),
        *("karpenter.sh", "karpenter.k8s.aws"),
    }
)
# On what the API server makes: roles and priority classes, and an APIService for each group of CRDs.
_OWN: Final = frozenset({"kubernetes.io/bootstrapping", "kube-aggregator.kubernetes.io/automanaged"})
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
    _KINDS,
)


# The suite has 45 minutes. The tutorials of a first cluster apply stacks for trials (test_first_up.py), and
# tests/integration/node_kinds asks an API server about what GKE gets.
_IN_SOAK: Final = [*(stack for stack in SHIPPED if stack.stem.endswith("-dev")), OWN["gke-compute-classes"]]
# The last one shows that the API server takes what Karpenter is handed.
_IN_CI: Final = [*(stack for stack in SHIPPED if stack not in _IN_SOAK), OWN["eks-karpenter"]]


@pytest.mark.parametrize("stack", _IN_SOAK if is_soak() else _IN_CI, ids=lambda stack: stack.stem)
def test_a_shipped_stack_is_previewed_applied_whole_left_alone_protected_and_destroyed(
    stack: Path, clouds: Clouds, cluster: Standing, charts: Path, tmp_path: Path
) -> None:
    described = config.load(stack)
    file, engine = _engine(stack, clouds, cluster, charts, tmp_path)
    before = _everything(cluster)

    # Previewed first, before anything stands, and judged by the shipped policy pack: a breach of a mandatory
    # policy ends it with an error.
    made = engine.run("up", "--yes", "--policy-pack", str(ROOT / "policies"))
    assert {step.op for step in made.changes} == {"create"}
    assert "muster@v" in made.output
    _assert_stands(cluster, described)
    asked = [*clouds.gcp.log, *clouds.aws.log]

    engine.up("--refresh", "--expect-no-changes")
    assert [*clouds.gcp.log, *clouds.aws.log] == asked

    if _is_protected(described):
        there = _everything(cluster)
        refused = engine.destroy(fails=True)
        assert "set muster:cluster.protect to false and run pulumi up" in refused.output
        assert [*clouds.gcp.log, *clouds.aws.log] == asked
        assert _everything(cluster) == there
        edited(file, file, {"muster:cluster.protect": False})
        engine.up()

    engine.destroy()
    assert not clouds.gcp.standing
    assert not clouds.aws.standing
    assert not engine.state()
    _assert_gone(cluster, before)


def _engine(
    stack: Path, clouds: Clouds, cluster: Standing, charts: Path, folder: Path
) -> tuple[Path, Workspace]:
    """The stack's file, and the engine on it with the cluster behind both clouds."""
    cluster.handed.to(clouds)
    name = stack.stem.removeprefix("Pulumi.")
    file = completed(stack, folder / f"Pulumi.{name}.yaml", charts)
    project = checkout(folder / "project", file)
    engine = workspace(folder / "ws", project, name, dict(clouds.environment))
    engine.environment |= cluster.handed.environment(folder, engine.environment["PATH"])
    return project / "stacks" / file.name, engine


def _assert_stands(cluster: Standing, stack: Stack) -> None:
    if isinstance(stack.cluster, EksCluster) and not stack.cluster.answers_requests:
        assert {pool.name for pool in stack.pools} == cluster.objects(
            "/apis/karpenter.sh/v1/nodepools"
        ).keys()
    if isinstance(stack.cluster, GkeCluster) and not stack.cluster.answers_requests:
        found = cluster.objects("/apis/cloud.google.com/v1/computeclasses")
        assert {pool.name for pool in stack.pools} == found.keys()
    teams = {team.name for _, team in stack.teams()}
    assert teams <= {key.rpartition("/")[2] for key in cluster.objects(_QUEUES[stack.scheduler])}
    deployments = cluster.objects("/apis/apps/v1/deployments")
    assert deployments
    for name, deployment in deployments.items():
        assert deployment["status"].get("availableReplicas") == deployment["spec"]["replicas"], name
    nodes = cluster.objects("/api/v1/nodes")
    for name, pod in cluster.objects("/api/v1/pods").items():
        labels = nodes[pod["spec"]["nodeName"]]["metadata"]["labels"]
        assert labels[names.POOL_LABEL] == names.SYSTEM_POOL, name


def _assert_gone(cluster: Standing, before: set[tuple[str, str]]) -> None:
    """All but the kinds that a user deletes by hand, which is done here; none has an object."""
    left = {name: path for path, name in _everything(cluster) - before}
    assert set(left.values()) <= {_KINDS}, left
    for name, kind in cluster.objects(_KINDS).items():
        if name in left:
            spec = kind["spec"]
            assert spec["group"] in _KEPT
            version = next(each["name"] for each in spec["versions"] if each["storage"])
            assert not cluster.objects(f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"), name
            cluster.plane.call("DELETE", f"{_KINDS}/{name}")
    eventually("the kinds are gone", lambda: _everything(cluster) == before)


def _is_protected(stack: Stack) -> bool:
    return isinstance(stack.cluster, GkeCluster | EksCluster) and stack.cluster.protect


def _everything(cluster: Standing) -> set[tuple[str, str]]:
    """All but what the API server makes for itself, some of it after it has begun to answer."""
    return {
        (path, name)
        for path in _LISTS
        for name, each in cluster.objects(path).items()
        if not _OWN & (each["metadata"].get("labels") or {}).keys() and not name.startswith("system-")
    }
