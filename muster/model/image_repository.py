"""The repository of a stack's controller image, one for each cluster.

Responsible for names. Not responsible for making the repository (muster.components) nor for pushing
(artifacts/publish).
"""

from typing import Final

from muster.model.clusters import Cluster, EksCluster, GkeCluster

IMAGE: Final = "gang-admission"


def repository_id(cluster: Cluster) -> str:
    """The cloud's own name of it. Artifact Registry's has several images, ECR's only one."""
    return f"{cluster.name}-images" if isinstance(cluster, GkeCluster) else f"{cluster.name}/{IMAGE}"


def address(cluster: Cluster, *, account: str = "") -> str | None:
    """`host/path` of the image. `account` is the AWS account, which no stack file contains. None for an
    existing cluster: its owner names a registry.
    """
    if isinstance(cluster, GkeCluster):
        return f"{cluster.region}-docker.pkg.dev/{cluster.project}/{repository_id(cluster)}/{IMAGE}"
    if isinstance(cluster, EksCluster):
        ending = "amazonaws.com.cn" if cluster.region.startswith("cn-") else "amazonaws.com"
        return f"{account}.dkr.ecr.{cluster.region}.{ending}/{repository_id(cluster)}"
    return None
