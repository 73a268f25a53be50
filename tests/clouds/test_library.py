"""Cluster components in programs of one's own, and the state of the last build, through the real engine."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.clouds.conftest import PROGRAMS, ClusterOf
from tests.clouds.engine import ROOT, workspace
from tests.clouds.stack_files import OWN
from tests.clouds.standin.serve import Clouds
from tests.last_build import last_build

VPC = "aws:ec2/vpc:Vpc"
CLUSTER = "aws:eks/cluster:Cluster"
SUBNET = "aws:ec2/subnet:Subnet"


@pytest.mark.parametrize("stack", OWN.values(), ids=lambda stack: stack.stem)
def test_the_state_of_the_last_build_previews_as_no_change(
    stack: Path, cluster_of: ClusterOf, tmp_path: Path
) -> None:
    made = cluster_of(stack)
    before = last_build(tmp_path / "before")
    made.project = before / PROGRAMS.relative_to(ROOT) / "cluster"
    made.environment["PYTHONPATH"] = str(before)
    made.up()

    made.project = PROGRAMS / "cluster"
    made.environment["PYTHONPATH"] = str(ROOT)
    made.preview("--expect-no-changes")


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
