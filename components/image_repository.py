"""The repository that holds the stack's controller image.

Responsible for its settings on each cloud. It depends on nothing: the image has to be pushed before the
cluster can run it. `muster image push` makes the repository and nothing else (MUSTER_STEP and a target).
"""

import os
from dataclasses import dataclass
from typing import Final

import pulumi

from muster.components.component import Component
from muster.model.clusters import Cluster, EksCluster, GkeCluster, Provider
from muster.model.image_repository import address, repository_id
from muster.model.names import FIELD_MANAGER

NAME: Final = "image-repository"
# Set for a run that makes the repository alone. Such a run has to be targeted, or it deletes everything else.
STEP_VARIABLE: Final = "MUSTER_STEP"
STEP: Final = "image-repository"
# A repository keeps its key for life. Another key would mean another repository, and the image that the
# cluster runs would be deleted with the first one (Artifact Registry), or the deletion be refused (ECR).
_KEPT: Final = {Provider.GKE: ["kmsKeyName"], Provider.EKS: ["encryptionConfigurations"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRepositoryArgs:
    """`cluster`: the repository's project or account, region, labels and key are the cluster's. Another
    region or project is another repository: the image has to be pushed there again.
    """

    cluster: GkeCluster | EksCluster


class ImageRepository(Component):
    """`url`: `host/path` of the image, without tag or digest."""

    def __init__(
        self, name: str, args: ImageRepositoryArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("muster:index:ImageRepository", name, opts)
        cluster = args.cluster
        kept = pulumi.ResourceOptions(ignore_changes=_KEPT[cluster.provider])
        child = pulumi.ResourceOptions.merge(self.child_options(), kept)
        self.url: pulumi.Output[str] = (
            _artifact_registry(name, cluster, child)
            if isinstance(cluster, GkeCluster)
            else _ecr(name, cluster, child)
        )
        self.register_outputs({"url": self.url})


def is_step() -> bool:
    """Whether this run makes the repository alone."""
    return os.environ.get(STEP_VARIABLE) == STEP


def image_repository(cluster: Cluster) -> ImageRepository | None:
    """None for a cluster that Muster did not make: its registry is not Muster's either."""
    if not isinstance(cluster, GkeCluster | EksCluster):
        return None
    return ImageRepository(NAME, ImageRepositoryArgs(cluster=cluster))


def _artifact_registry(name: str, cluster: GkeCluster, opts: pulumi.ResourceOptions) -> pulumi.Output[str]:
    import pulumi_gcp as gcp  # loaded where it is used: it takes seconds

    made = gcp.artifactregistry.Repository(
        name,
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


def _ecr(name: str, cluster: EksCluster, opts: pulumi.ResourceOptions) -> pulumi.Output[str]:
    import pulumi_aws as aws

    kind = "KMS" if cluster.kms_key else "AES256"
    made = aws.ecr.Repository(
        name,
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
