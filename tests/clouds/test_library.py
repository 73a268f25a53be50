"""Cluster components in programs of one's own, and the state of the last build, through the real engine."""

import re
import shutil
from pathlib import Path

import pytest

from tests.clouds.conftest import PROGRAMS, ClusterOf
from tests.clouds.engine import ROOT, workspace
from tests.clouds.stack_files import OWN, edited
from tests.clouds.standin.serve import Clouds
from tests.last_build import last_build

VPC = "aws:ec2/vpc:Vpc"
CLUSTER = "aws:eks/cluster:Cluster"
SUBNET = "aws:ec2/subnet:Subnet"


# What this build means to change in a cluster of that one.
MEANT = {
    "gke": re.compile(
        r"create gcp:compute/firewall:Firewall every-control-plane"
        # Into a release channel, in which queued pools have auto-upgrade on.
        r"|update gcp:container/cluster:Cluster every"
        r"|update gcp:container/nodePool:NodePool every-(l4|v6e)"
    ),
    "eks": re.compile(
        r"update aws:eks/addon:Addon every-(vpc-cni|aws-ebs-csi-driver)"
        r"|create aws:eks/addon:Addon every-eks-node-monitoring-agent"
        r"|update aws:eks/nodeGroup:NodeGroup every-(system|a100|h100)"
        # Their nodes obey no variable that names GPUs.
        r"|update aws:ec2/launchTemplate:LaunchTemplate every-(a10g|a100|h100|t4)(-.+)?"
        # Pools of two zones, which are two groups now.
        r"|(create|delete) aws:(eks/nodeGroup:NodeGroup|autoscaling/tag:Tag) every-(cpu|a10g|t4)(-.+)?"
    ),
}


@pytest.mark.parametrize("cloud", MEANT)
def test_the_state_of_the_last_build_previews_as_no_change_but_what_is_meant(
    cloud: str, clouds: Clouds, cluster_of: ClusterOf, tmp_path: Path
) -> None:
    before = last_build(tmp_path / "before")
    # It knows fewer machines than this build. Both name a version: the default has moved.
    stack = edited(
        before / OWN[cloud].relative_to(ROOT),
        tmp_path / f"{cloud}.yaml",
        {"muster:cluster.version": "1.34"} if cloud == "eks" else {},
    )
    made = cluster_of(stack)
    made.project = before / PROGRAMS.relative_to(ROOT) / "cluster"
    made.environment["PYTHONPATH"] = str(before)
    clouds.gcp.takes_deprecated = True  # Its cluster was in no channel.
    made.up()
    clouds.gcp.takes_deprecated = False

    made.project = PROGRAMS / "cluster"
    made.environment["PYTHONPATH"] = str(ROOT)
    changes = [f"{step.op} {step.type} {step.name}" for step in made.preview().changes]
    assert [each for each in changes if not MEANT[cloud].fullmatch(each)] == []


def test_a_cluster_takes_the_vpc_of_the_program_around_it(clouds: Clouds, tmp_path: Path) -> None:
    (tmp_path / "muster").symlink_to(ROOT / "muster")
    project = tmp_path / "examples" / "library" / "existing-vpc"
    shutil.copytree(ROOT / "examples" / "library" / "existing-vpc", project)
    environment = {
        **clouds.environment,
        "PYTHONPATH": str(ROOT),
        "PULUMI_PYTHON_CMD": str(ROOT / ".venv" / "bin" / "python"),
    }
    made = workspace(tmp_path / "engine", project, "test", environment)
    made.preview()
    run = made.up()
    assert len(run.of(VPC)) == 1
    (vpc,) = [each for each in made.state() if each["type"] == VPC]
    (cluster,) = [each for each in made.state() if each["type"] == CLUSTER]
    private = {each["id"] for each in made.state() if each["type"] == SUBNET and "::private-" in each["urn"]}
    assert set(cluster["inputs"]["vpcConfig"]["subnetIds"]) == private
    assert cluster["inputs"]["tags"]["muster.dev/vpc"] == f"eu-central-1:{vpc['id']}"
    made.preview("--expect-no-changes")
    made.destroy()
    assert not clouds.aws.of(CLUSTER)
