"""The image's repository stands by itself: tags that never move, and one step that makes nothing else."""

import stat
from pathlib import Path

import pytest
import yaml

from muster import config
from muster.artifacts.publish import build
from muster.components.gang_admission import STEP, STEP_VARIABLE, image_repository
from muster.config.edit import template
from muster.model.clusters import Cluster, EksCluster, ExistingCluster, GkeCluster, Provider
from tests.mocks.recorder import run

GOOGLE = "gcp:artifactregistry/repository:Repository"
AMAZON = "aws:ecr/repository:Repository"


def cluster(provider: Provider, **more: object) -> Cluster:
    written = yaml.safe_load(template("here", provider))["config"]
    written["muster:cluster"] |= more
    return config.parse(written, source="x").cluster


def test_on_gke_it_lies_beside_the_cluster_and_tags_never_move() -> None:
    here = cluster(Provider.GKE)
    made = run(lambda: image_repository(here)).one(GOOGLE, "image-repository").inputs
    assert made["format"] == "DOCKER"
    assert made["dockerConfig"] == {"immutableTags": True}
    assert isinstance(here, GkeCluster)
    host = f"{made['location']}-docker.pkg.dev/{made['project']}/{made['repositoryId']}"
    assert here.image_address() == f"{host}/gang-admission"


@pytest.mark.parametrize(
    ("key", "kind"), [(None, "AES256"), ("arn:aws:kms:us-east-1:123456789012:key/k", "KMS")]
)
def test_on_eks_it_is_scanned_encrypted_and_tags_never_move(key: str | None, kind: str) -> None:
    here = cluster(Provider.EKS, **({"kmsKey": key} if key else {}))
    made = run(lambda: image_repository(here)).one(AMAZON, "image-repository").inputs
    assert made["imageTagMutability"] == "IMMUTABLE"
    assert made["imageScanningConfiguration"] == {"scanOnPush": True}
    assert made["encryptionConfigurations"][0]["encryptionType"] == kind
    assert isinstance(here, EksCluster)
    place = here.image_address(lambda: "123456789012")
    assert place == f"123456789012.dkr.ecr.{here.region}.amazonaws.com/{made['name']}"


def test_somebody_elses_cluster_has_somebody_elses_registry() -> None:
    assert image_repository(ExistingCluster(name="x")) is None
    assert ExistingCluster(name="x").image_address() is None


def test_nothing_but_the_repository_is_asked_of_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The CLI that is called writes down how: a real one would make a cluster where this went wrong."""
    program, told = tmp_path / "pulumi", tmp_path / "told"
    program.write_text(f'#!/bin/sh\necho "${STEP_VARIABLE} $*" > {told}\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    build.make_repository("gke-prod")
    step, *arguments = told.read_text().split()
    assert step == STEP
    assert arguments[arguments.index("--target") + 1] == "**image-repository"
    assert arguments[arguments.index("--stack") + 1] == "gke-prod"
    program.write_text("#!/bin/sh\nexit 3\n")
    with pytest.raises(build.PushTargetError, match="above"):
        build.make_repository("gke-prod")


def test_without_the_cli_the_way_out_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(build.PushTargetError, match="--repository"):
        build.make_repository("x")
