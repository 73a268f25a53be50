"""The IAM roles of an EKS cluster: of its control plane, of its nodes, and of pods that use Pod Identity.

Nodes hold the two managed policies that joining and pulling images need; whatever a pod may do beyond comes
through Pod Identity, for its own ServiceAccount alone.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Final

import pulumi
import pulumi_aws as aws

_AWS: Final = "arn:aws:iam::aws:policy"
CLUSTER_POLICIES: Final = (f"{_AWS}/AmazonEKSClusterPolicy",)
# https://docs.aws.amazon.com/eks/latest/userguide/create-node-role.html. The CNI's own rights go to it by
# Pod Identity, not to the node.
NODE_POLICIES: Final = (
    f"{_AWS}/AmazonEKSWorkerNodeMinimalPolicy",
    f"{_AWS}/AmazonEC2ContainerRegistryPullOnly",
)
CNI_POLICY: Final = f"{_AWS}/AmazonEKS_CNI_Policy"


def service_role(
    name: str,
    service: str,
    policies: Sequence[str],
    *,
    tags: Mapping[str, str],
    opts: pulumi.ResourceOptions,
    tags_sessions: bool = False,
) -> tuple[aws.iam.Role, list[pulumi.Resource]]:
    """A role that an AWS service takes, and its grants, to wait for before the role is used."""
    role = aws.iam.Role(
        name,
        assume_role_policy=_trust(
            service, ["sts:AssumeRole", *(["sts:TagSession"] if tags_sessions else [])]
        ),
        tags=dict(tags) or None,
        opts=opts,
    )
    grants: list[pulumi.Resource] = [
        aws.iam.RolePolicyAttachment(
            f"{name}-{policy.rpartition('/')[2]}", role=role.name, policy_arn=policy, opts=opts
        )
        for policy in policies
    ]
    return role, grants


def pod_role(name: str, *, tags: Mapping[str, str], opts: pulumi.ResourceOptions) -> aws.iam.Role:
    """A role that pods take through Pod Identity.
    https://docs.aws.amazon.com/eks/latest/userguide/pod-id-role.html
    """
    return aws.iam.Role(
        name,
        assume_role_policy=_trust("pods.eks.amazonaws.com", ["sts:AssumeRole", "sts:TagSession"]),
        tags=dict(tags) or None,
        opts=opts,
    )


def _trust(service: str, actions: list[str]) -> str:
    statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": actions}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})
