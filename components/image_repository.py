"""The repository that holds the stack's controller image.

Decides its settings on each cloud. It stands by itself, before everything else: the image has to be pushed
before the cluster can run it. `make image push` makes it and nothing else (MUSTER_STEP and a target).
"""

import os
from typing import Final

import pulumi

from muster.model.clusters import Cluster, EksCluster, GkeCluster, Provider
from muster.model.image_repository import address, repository_id
from muster.model.names import FIELD_MANAGER

NAME: Final = "image-repository"
# Named by whoever makes the repository alone; such a run has to be targeted, or the rest would be taken away.
STEP_VARIABLE: Final = "MUSTER_STEP"
STEP: Final = "image-repository"
# Its key is for life: another one would be another repository, and the image that the cluster runs would go
# with the first (Artifact Registry), or the deletion be refused (ECR). A repository of images holds no
# secret.
_KEPT: Final = {Provider.GKE: ["kmsKeyName"], Provider.EKS: ["encryptionConfigurations"]}


class ImageRepository(pulumi.ComponentResource):
    """`url`: `host/path` of the image, without tag or digest."""

    def __init__(
        self, cluster: GkeCluster | EksCluster, *, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("muster:index:ImageRepository", NAME, None, opts)
        child = pulumi.ResourceOptions(parent=self, ignore_changes=_KEPT[cluster.provider])
        self.url: pulumi.Output[str] = (
            _artifact_registry(cluster, child) if isinstance(cluster, GkeCluster) else _ecr(cluster, child)
        )
        self.register_outputs({"url": self.url})


def is_step() -> bool:
    """Whether this run makes the repository alone."""
    return os.environ.get(STEP_VARIABLE) == STEP


def image_repository(cluster: Cluster) -> ImageRepository | None:
    """None for a cluster that somebody else made: so is its registry."""
    return ImageRepository(cluster) if isinstance(cluster, GkeCluster | EksCluster) else None


def _artifact_registry(cluster: GkeCluster, opts: pulumi.ResourceOptions) -> pulumi.Output[str]:
    import pulumi_gcp as gcp  # loaded where it is used: it takes seconds

    made = gcp.artifactregistry.Repository(
        NAME,
        repository_id=repository_id(cluster),
        location=cluster.region,
        project=cluster.project,
        format="DOCKER",
        description=f"Images of Muster for cluster {cluster.name}",
        # A tag never moves: what ran can be found again.
        docker_config={"immutable_tags": True},
        kms_key_name=cluster.kms_key,
        labels=dict(cluster.labels),
        opts=opts,
    )
    # Known before it is made, but of no use before.
    known: pulumi.Output[str] = made.id.apply(lambda _: address(cluster) or "")
    return known


def _ecr(cluster: EksCluster, opts: pulumi.ResourceOptions) -> pulumi.Output[str]:
    import pulumi_aws as aws

    kind = "KMS" if cluster.kms_key else "AES256"
    made = aws.ecr.Repository(
        NAME,
        name=repository_id(cluster),
        region=cluster.region,
        image_tag_mutability="IMMUTABLE",
        image_scanning_configuration=aws.ecr.RepositoryImageScanningConfigurationArgs(scan_on_push=True),
        encryption_configurations=[
            aws.ecr.RepositoryEncryptionConfigurationArgs(encryption_type=kind, kms_key=cluster.kms_key)
        ],
        tags={**cluster.tags, "managed-by": FIELD_MANAGER.partition(".")[0]},
        opts=opts,
    )
    url: pulumi.Output[str] = made.repository_url
    return url
