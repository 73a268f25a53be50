"""What cluster-autoscaler may do in AWS: look at everything, and resize the groups of its own cluster.

https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/cloudprovider/aws/README.md
"""

import json
from typing import Any, Final

import pulumi
import pulumi_aws as aws

from muster.components.clusters.eks import roles
from muster.model import names
from muster.model.clusters import EksCluster

_LOOKS: Final = (
    "autoscaling:DescribeAutoScalingGroups",
    "autoscaling:DescribeAutoScalingInstances",
    "autoscaling:DescribeLaunchConfigurations",
    "autoscaling:DescribeScalingActivities",
    "autoscaling:DescribeTags",
    "ec2:DescribeImages",
    "ec2:DescribeInstanceTypes",
    "ec2:DescribeLaunchTemplateVersions",
    "ec2:GetInstanceTypesFromInstanceRequirements",
    "eks:DescribeNodegroup",
)
_RESIZES: Final = ("autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup")


def policy(cluster: str) -> dict[str, Any]:
    """EKS tags the groups that it makes with the cluster's name, as `owned`."""
    owned = {"StringEquals": {f"aws:ResourceTag/k8s.io/cluster-autoscaler/{cluster}": "owned"}}
    return {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Action": list(_LOOKS), "Resource": "*"},
            {"Effect": "Allow", "Action": list(_RESIZES), "Resource": "*", "Condition": owned},
        ],
    }


def identity(
    described: EksCluster, *, prefix: str, cluster: aws.eks.Cluster, opts: pulumi.ResourceOptions
) -> pulumi.Resource:
    """The role, and the ServiceAccount that gets it by Pod Identity."""
    name = f"{prefix}-autoscaler"
    role = roles.pod_role(name, tags=described.tags, opts=opts)
    grant = aws.iam.RolePolicy(name, role=role.name, policy=json.dumps(policy(described.name)), opts=opts)
    association: pulumi.Resource = aws.eks.PodIdentityAssociation(
        name,
        cluster_name=cluster.name,
        namespace=names.AUTOSCALER_NAMESPACE,
        service_account=names.AUTOSCALER,
        role_arn=role.arn,
        tags=dict(described.tags) or None,
        opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[grant])),
    )
    return association
