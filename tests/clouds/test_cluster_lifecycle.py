"""The cloud half of a stack with everything in it, through the real engine: made, left alone, changed,
protected, destroyed. The shipped stacks go through test_applied.py, with their other half.
"""

from pathlib import Path
from typing import Any

import pytest

from muster import config
from muster.model.clusters import EksCluster, GkeCluster
from tests.clouds.conftest import ClusterOf
from tests.clouds.engine import Run, Workspace
from tests.clouds.planned import pool_of
from tests.clouds.stack_files import OWN, edited, provider
from tests.clouds.standin.cloud import Cloud
from tests.clouds.standin.serve import Clouds

EVERY = pytest.mark.parametrize("stack", OWN.values(), ids=lambda stack: stack.stem)
POOL = {"gke": "gcp:container/nodePool:NodePool", "eks": "aws:eks/nodeGroup:NodeGroup"}
CLUSTER = {"gke": "gcp:container/cluster:Cluster", "eks": "aws:eks/cluster:Cluster"}


def _cloud(clouds: Clouds, stack: Path) -> Cloud:
    return clouds.gcp if provider(stack) == "gke" else clouds.aws


def _is_protected(stack: Path) -> bool:
    cluster = config.load(stack).cluster
    return isinstance(cluster, GkeCluster | EksCluster) and cluster.protect


def _turn(workspace: Workspace, stack: Path) -> None:
    """From now on the program reads this file."""
    workspace.environment["CLUSTER_STACK"] = str(stack)


@EVERY
def test_a_stack_is_made_left_alone_protected_and_destroyed(
    stack: Path, clouds: Clouds, cluster_of: ClusterOf, tmp_path: Path
) -> None:
    cloud, workspace = _cloud(clouds, stack), cluster_of(stack)
    workspace.preview()
    assert not cloud.standing
    workspace.up()
    assert cloud.of(CLUSTER[provider(stack)])
    made = list(cloud.log)

    workspace.up("--refresh", "--expect-no-changes")
    assert cloud.log == made

    if _is_protected(stack):
        refused = workspace.destroy(fails=True)
        assert "set muster:cluster.protect to false and run pulumi up" in refused.output
        assert cloud.log == made
        _turn(workspace, edited(stack, tmp_path / "open.yaml", {"muster:cluster.protect": False}))
        workspace.up()
    workspace.destroy()
    assert not cloud.standing
    assert not workspace.state()


# What a user edits in one go -> what the engine does with it. Why a pool is replaced: the tables.
GKE_UPDATES = (
    {
        "muster:pools.l4.maxNodes": 12,
        "muster:pools.cpu.machine": "e2-standard-8",
        "muster:pools.cpu.labels": {"tier": "web"},
        "muster:cluster.authorizedNetworks": {"home": "198.51.100.0/24"},
        "muster:cluster.labels": {"team": "infra"},
    },
    {"every-l4": "update", "every-cpu": "update", "every": "update", "every-a100": "update"},
)
GKE_REPLACEMENTS = (
    {
        "muster:pools.t4.capacity": "on-demand",
        "muster:pools.l4.maxRunDuration": "48h",
        "muster:pools.h100.localDisks": "none",
        "muster:pools.a100": None,
    },
    {"every-t4": "replace", "every-l4": "replace", "every-h100": "replace", "every-a100": "delete"},
)
GKE_MOVE = (
    {
        "muster:cluster.region": "us-east1",
        "muster:cluster.zones": None,
        "muster:pools.h100.zones": ["us-east1-b"],
        "muster:pools.v6e.zones": ["us-east1-b"],
    },
    {"every": "replace"},
)
EKS_UPDATES = (
    {
        "muster:pools.a10g.maxNodes": 12,
        "muster:pools.cpu.labels": {"tier": "web"},
        "muster:pools.t4.bootDiskGiB": 300,
        "muster:cluster.publicCidrs": ["198.51.100.0/24"],
        "muster:cluster.logs": ["audit"],
    },
    {"every-a10g": "update", "every-cpu": "update", "every-t4": "update", "every": "update"},
)
EKS_REPLACEMENTS = (
    {
        "muster:pools.cpu.machine": "m6i.2xlarge",
        "muster:pools.t4.capacity": "on-demand",
        "muster:pools.a100": None,
        "muster:cluster.access": None,
    },
    {
        "every-cpu": "replace",
        "every-t4": "replace",
        "every-a100": "delete",
        "every-access-platform": "delete",
    },
)
EKS_MOVE = ({"muster:cluster.name": "other"}, {"other": "create", "every": "delete"})


@pytest.mark.parametrize(
    ("name", "carried_out", "announced"),
    [("gke", [GKE_UPDATES, GKE_REPLACEMENTS], GKE_MOVE), ("eks", [EKS_UPDATES, EKS_REPLACEMENTS], EKS_MOVE)],
)
def test_a_change_is_an_update_where_the_cloud_allows_it_and_a_replacement_is_announced(
    name: str,
    carried_out: list[tuple[dict[str, Any], dict[str, str]]],
    announced: tuple[dict[str, Any], dict[str, str]],
    clouds: Clouds,
    cluster_of: ClusterOf,
    tmp_path: Path,
) -> None:
    stack = edited(OWN[name], tmp_path / "base.yaml", {"muster:cluster.protect": False})
    cloud, workspace = _cloud(clouds, stack), cluster_of(stack)
    workspace.up()

    made = list(cloud.log)
    for edits, expected in (*carried_out, announced):
        _turn(workspace, edited(stack, tmp_path / "changed.yaml", edits))
        planned = _planned(workspace.preview(), name)
        assert {each: planned.get(each) for each in expected} == expected
        assert cloud.log == made

    for edits, expected in carried_out:
        stack = edited(stack, tmp_path / "next.yaml", edits)
        _turn(workspace, stack)
        planned = _planned(workspace.up(), name)
        assert {each: planned.get(each) for each in expected} == expected
        workspace.up("--expect-no-changes")


def _planned(run: Run, cloud: str) -> dict[str, str]:
    """Resource -> the weightiest thing that happens to it, of clusters, pools and access."""
    told = (POOL[cloud], CLUSTER[cloud], "aws:eks/accessEntry:AccessEntry")
    weight = ["update", "create", "delete", "replace"]
    ops: dict[str, str] = {}
    for step in run.changes:
        if step.type in told:
            op = "replace" if "replace" in step.op else step.op
            name = pool_of(step.name)
            ops[name] = max(op, ops.get(name, "update"), key=weight.index)
    return ops


def test_a_cluster_without_a_channel_moves_to_one_in_place(
    clouds: Clouds, cluster_of: ClusterOf, tmp_path: Path
) -> None:
    edits = {"muster:cluster.protect": False, "muster:cluster.releaseChannel": "none"}
    before = edited(OWN["gke"], tmp_path / "base.yaml", edits)
    workspace = cluster_of(before)
    refused = workspace.up(fails=True)
    assert "UNSPECIFIED of container.v1 Cluster.releaseChannel.channel is deprecated" in refused.output

    clouds.gcp.takes_deprecated = True
    workspace.up()
    clouds.gcp.takes_deprecated = False
    assert clouds.gcp.of(CLUSTER["gke"])[0].inputs["releaseChannel"] == {"channel": "UNSPECIFIED"}

    _turn(workspace, edited(before, tmp_path / "channel.yaml", {"muster:cluster.releaseChannel": None}))
    moved = {"every": "update", "every-l4": "update", "every-v6e": "update"}
    assert _planned(workspace.preview(), "gke") == moved
    assert _planned(workspace.up(), "gke") == moved
    assert clouds.gcp.of(CLUSTER["gke"])[0].inputs["releaseChannel"] == {"channel": "REGULAR"}


def test_a_cluster_goes_over_to_karpenter_in_place(
    clouds: Clouds, cluster_of: ClusterOf, tmp_path: Path
) -> None:
    edits = {"muster:cluster.protect": False, "muster:cluster.autoscaler": "cluster-autoscaler"}
    workspace = cluster_of(edited(OWN["eks-karpenter"], tmp_path / "groups.yaml", edits))
    workspace.up()
    assert len(clouds.aws.of(POOL["eks"])) > 1

    _turn(
        workspace,
        edited(OWN["eks-karpenter"], tmp_path / "karpenter.yaml", {"muster:cluster.protect": False}),
    )
    run = workspace.up()
    changes = {step.name: step.op for step in run.changes}
    assert "every" not in changes
    assert changes["every-h100"] == "delete"
    assert [each.inputs["nodeGroupName"] for each in clouds.aws.of(POOL["eks"])] == ["system"]
    workspace.destroy()
    assert not clouds.aws.standing
