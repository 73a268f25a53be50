"""What Karpenter has in AWS: a role for itself and one for its nodes, and a queue on which EC2 announces that
a machine will be taken away.

Rights and events are those of Karpenter's own template (https://karpenter.sh/docs/reference/cloudformation/),
and each call is one that its source makes (pkg/aws/sdk.go of 1.14.1). Each right to change something is bound
to this cluster's tag.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pulumi
import pulumi_aws as aws

from muster.components.bundle import text
from muster.components.clusters.cloud import Provisioning
from muster.components.clusters.eks import groups, roles
from muster.components.clusters.eks.network import Network
from muster.errors import MusterError
from muster.model import names
from muster.model.capacity import Capacity
from muster.model.clusters import EksCluster
from muster.model.pools import Pool
from muster.render import karpenter

# The objects from which Karpenter or Auto Mode launches the nodes of an EKS cluster, with what they refer
# to in AWS filled in.


def provisioning(
    described: EksCluster,
    pools: Sequence[Pool],
    *,
    prefix: str,
    control_plane: aws.eks.Cluster,
    network: Network,
    role: pulumi.Output[str],
    queue: pulumi.Output[str] | None,
    opts: pulumi.ResourceOptions,
) -> Provisioning:
    """`role`: the name of the nodes' role."""
    if queued := [pool.name for pool in pools if pool.capacity is Capacity.QUEUED]:
        raise MusterError(
            f"pool {', '.join(queued)}: {described.autoscaler} answers no ProvisioningRequest.",
            fix="use another capacity, or `autoscaler: cluster-autoscaler`.",
        )
    fabric: pulumi.Input[str] = ""
    if any(pool.efa for pool in pools):
        fabric = groups.fabric(described, prefix=prefix, control_plane=control_plane, opts=opts).id
    placement = {
        pool.name: group
        for pool in pools
        if (group := groups.placement_group(pool, described, name=f"{prefix}-{pool.name}", opts=opts))
    }
    known = pulumi.Output.all(
        role=role,
        subnets=dict(network.subnets),
        shared=control_plane.vpc_config.apply(lambda config: config.cluster_security_group_id or ""),
        fabric=fabric,
        placement=placement,
    )

    def rendered(values: dict[str, Any]) -> str:
        return text(karpenter.objects(pools, described, karpenter.Found(**values)))

    return Provisioning(objects=known.apply(rendered), queue=queue)


# What EKS Auto Mode has in AWS: further rights of the control plane, which launches the nodes, and the role
# of those nodes.
# https://docs.aws.amazon.com/eks/latest/userguide/auto-cluster-iam-role.html, .../create-node-class.html

_AWS: Final = "arn:aws:iam::aws:policy"
CLUSTER_POLICIES: Final = (
    f"{_AWS}/AmazonEKSBlockStoragePolicy",
    f"{_AWS}/AmazonEKSComputePolicy",
    f"{_AWS}/AmazonEKSLoadBalancingPolicy",
    f"{_AWS}/AmazonEKSNetworkingPolicy",
)
_NODES: Final = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSAutoNodePolicy"


def settings() -> dict[str, object]:
    """Of the cluster: EKS takes all three or none, and brings network, names and Pod Identity itself. Its
    built-in pools are off: the stack's are the only ones.
    https://registry.terraform.io/providers/hashicorp/aws/latest/docs/resources/eks_cluster
    """
    return {
        "bootstrap_self_managed_addons": False,
        "compute_config": aws.eks.ClusterComputeConfigArgs(enabled=True),
        "kubernetes_network_config": aws.eks.ClusterKubernetesNetworkConfigArgs(
            elastic_load_balancing=aws.eks.ClusterKubernetesNetworkConfigElasticLoadBalancingArgs(
                enabled=True
            )
        ),
        "storage_config": aws.eks.ClusterStorageConfigArgs(
            block_storage=aws.eks.ClusterStorageConfigBlockStorageArgs(enabled=True)
        ),
    }


def node_role(
    described: EksCluster, *, prefix: str, cluster: aws.eks.Cluster, opts: pulumi.ResourceOptions
) -> tuple[pulumi.Output[str], list[pulumi.Resource]]:
    """The name of the role, and what has to exist before a node joins with it."""
    name = f"{prefix}-auto-nodes"
    tags = dict(described.tags) or None
    role, grants = roles.service_role(
        name, "ec2.amazonaws.com", roles.NODE_POLICIES, tags=described.tags, opts=opts
    )
    entry = aws.eks.AccessEntry(
        name, cluster_name=cluster.name, principal_arn=role.arn, type="EC2", tags=tags, opts=opts
    )
    joins = aws.eks.AccessPolicyAssociation(
        name,
        cluster_name=cluster.name,
        principal_arn=role.arn,
        policy_arn=_NODES,
        access_scope=aws.eks.AccessPolicyAssociationAccessScopeArgs(type="cluster"),
        opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[entry])),
    )
    return role.name, [*grants, joins]


_LAUNCHED: Final = (
    *("fleet", "instance", "volume", "network-interface", "launch-template", "spot-instances-request"),
)
_USED: Final = ("capacity-reservation", "placement-group", "security-group", "subnet")
_LAUNCH: Final = ("ec2:RunInstances", "ec2:CreateFleet")
_LOOKS: Final = (
    "ec2:DescribeCapacityReservations",
    "ec2:DescribeImages",
    "ec2:DescribeInstanceStatus",
    "ec2:DescribeInstanceTypeOfferings",
    "ec2:DescribeInstanceTypes",
    "ec2:DescribeInstances",
    "ec2:DescribeLaunchTemplates",
    "ec2:DescribePlacementGroups",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSpotPriceHistory",
    "ec2:DescribeSubnets",
)
_POOL: Final = "karpenter.sh/nodepool"
_CLASS: Final = "karpenter.k8s.aws/ec2nodeclass"
_REGION: Final = "topology.kubernetes.io/region"
# What EC2 and AWS Health announce. Each: name, source, kind of event.
EVENTS: Final = (
    ("health", "aws.health", "AWS Health Event"),
    ("spot", "aws.ec2", "EC2 Spot Instance Interruption Warning"),
    ("rebalance", "aws.ec2", "EC2 Instance Rebalance Recommendation"),
    ("state", "aws.ec2", "EC2 Instance State-change Notification"),
    ("reservation", "aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """`role`: the name of the nodes' role. `queue`: of the queue. `ready`: what has to exist before Karpenter
    acts, and until its last node is gone.
    """

    role: pulumi.Output[str]
    queue: pulumi.Output[str]
    ready: list[pulumi.Resource]


def identity(
    described: EksCluster, *, prefix: str, cluster: aws.eks.Cluster, opts: pulumi.ResourceOptions
) -> Identity:
    """The nodes' role with its way into the cluster, the queue with its events, and Karpenter's own role."""
    tags = dict(described.tags) or None
    nodes, grants = roles.service_role(
        f"{prefix}-karpenter-nodes",
        "ec2.amazonaws.com",
        roles.NODE_POLICIES,
        tags=described.tags,
        opts=opts,
    )
    entry = aws.eks.AccessEntry(
        f"{prefix}-karpenter-nodes",
        cluster_name=cluster.name,
        principal_arn=nodes.arn,
        type="EC2_LINUX",
        tags=tags,
        opts=opts,
    )
    queue, events = _queue(described, prefix=prefix, opts=opts)
    name = f"{prefix}-karpenter"
    role = roles.pod_role(name, tags=described.tags, opts=opts)
    documents = pulumi.Output.all(nodes.arn, queue.arn, cluster.arn).apply(
        lambda arns: policies(described, nodes=arns[0], queue=arns[1], cluster=arns[2])
    )
    rights = [
        aws.iam.RolePolicy(f"{name}-{part}", role=role.name, policy=documents[part], opts=opts)
        for part in PARTS
    ]
    association = aws.eks.PodIdentityAssociation(
        name,
        cluster_name=cluster.name,
        namespace=names.KARPENTER_NAMESPACE,
        service_account=names.KARPENTER,
        role_arn=role.arn,
        tags=tags,
        opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=rights)),
    )
    return Identity(role=nodes.name, queue=queue.name, ready=[association, entry, *grants, *events])


def _queue(
    described: EksCluster, *, prefix: str, opts: pulumi.ResourceOptions
) -> tuple[aws.sqs.Queue, list[pulumi.Resource]]:
    name = f"{prefix}-karpenter"
    tags = dict(described.tags) or None
    queue = aws.sqs.Queue(
        name,
        # A warning is worth two minutes at most.
        message_retention_seconds=300,
        sqs_managed_sse_enabled=True,
        tags=tags,
        opts=opts,
    )
    made: list[pulumi.Resource] = [
        aws.sqs.QueuePolicy(
            name,
            queue_url=queue.url,
            policy=queue.arn.apply(lambda arn: json.dumps(queue_policy(arn))),
            opts=opts,
        )
    ]
    for event, source, kind in EVENTS:
        rule = aws.cloudwatch.EventRule(
            f"{name}-{event}",
            event_pattern=json.dumps({"source": [source], "detail-type": [kind]}),
            tags=tags,
            opts=opts,
        )
        made.append(aws.cloudwatch.EventTarget(f"{name}-{event}", rule=rule.name, arn=queue.arn, opts=opts))
    return queue, made


def queue_policy(queue: str) -> dict[str, Any]:
    """EventBridge writes, over TLS alone."""
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": ["events.amazonaws.com", "sqs.amazonaws.com"]},
                "Action": "sqs:SendMessage",
                "Resource": queue,
            },
            {
                "Effect": "Deny",
                "Principal": "*",
                "Action": "sqs:*",
                "Resource": queue,
                "Condition": {"Bool": {"aws:SecureTransport": "false"}},
            },
        ],
    }


# One policy each: together they are longer than a policy may be.
PARTS: Final = ("launch", "profiles", "read")


def policies(described: EksCluster, *, nodes: str, queue: str, cluster: str) -> dict[str, str]:
    """Part -> document. `nodes`: ARN of the nodes' role."""
    statements = {
        "launch": _launches(described),
        "profiles": _profiles(described, nodes=nodes),
        "read": _reads(described, queue=queue, cluster=cluster),
    }
    return {
        part: json.dumps({"Version": "2012-10-17", "Statement": each}, separators=(",", ":"))
        for part, each in statements.items()
    }


def _launches(described: EksCluster) -> list[dict[str, Any]]:
    """What is launched carries the cluster's tag, and only what carries it is changed or ended."""
    ec2 = f"arn:aws:ec2:{described.region}"
    owned = _owned("aws:ResourceTag", described) | {"StringLike": {f"aws:ResourceTag/{_POOL}": "*"}}
    asked = _owned("aws:RequestTag", described) | {"StringLike": {f"aws:RequestTag/{_POOL}": "*"}}
    launched = [f"{ec2}:*:{kind}/*" for kind in _LAUNCHED]
    tagged = {
        "StringEquals": {
            **asked["StringEquals"],
            "ec2:CreateAction": ["RunInstances", "CreateFleet", "CreateLaunchTemplate"],
        },
        "StringLike": asked["StringLike"],
    }
    named = owned | {"ForAllValues:StringEquals": {"aws:TagKeys": ["karpenter.sh/nodeclaim", "Name"]}}
    return [
        _allow(_LAUNCH, [f"{ec2}::image/*", f"{ec2}::snapshot/*", *(f"{ec2}:*:{kind}/*" for kind in _USED)]),
        _allow(_LAUNCH, [f"{ec2}:*:launch-template/*"], owned),
        _allow((*_LAUNCH, "ec2:CreateLaunchTemplate"), launched, asked),
        _allow(("ec2:CreateTags",), launched, tagged),
        _allow(("ec2:CreateTags",), [f"{ec2}:*:instance/*"], named),
        _allow(
            ("ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"),
            [f"{ec2}:*:instance/*", f"{ec2}:*:launch-template/*"],
            owned,
        ),
    ]


def _profiles(described: EksCluster, *, nodes: str) -> list[dict[str, Any]]:
    """Instance profiles of its own making, with the nodes' role and no other."""
    here = _owned("aws:ResourceTag", described, region=True)
    there = _owned("aws:RequestTag", described, region=True)
    of_here = {"StringLike": {f"aws:ResourceTag/{_CLASS}": "*"}}
    of_there = {"StringLike": {f"aws:RequestTag/{_CLASS}": "*"}}
    both = {
        "StringEquals": here["StringEquals"] | there["StringEquals"],
        "StringLike": of_here["StringLike"] | of_there["StringLike"],
    }
    return [
        _allow(("iam:PassRole",), [nodes], {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}}),
        _allow(("iam:CreateInstanceProfile",), ["*"], there | of_there),
        _allow(("iam:TagInstanceProfile",), ["*"], both),
        _allow(
            (
                "iam:AddRoleToInstanceProfile",
                "iam:RemoveRoleFromInstanceProfile",
                "iam:DeleteInstanceProfile",
            ),
            ["*"],
            here | of_here,
        ),
        _allow(("iam:GetInstanceProfile", "iam:ListInstanceProfiles"), ["*"]),
    ]


def _reads(described: EksCluster, *, queue: str, cluster: str) -> list[dict[str, Any]]:
    here = {"StringEquals": {"aws:RequestedRegion": described.region}}
    return [
        _allow(_LOOKS, ["*"], here),
        _allow(("ssm:GetParameter",), [f"arn:aws:ssm:{described.region}::parameter/aws/service/*"]),
        _allow(("pricing:GetProducts",), ["*"]),
        _allow(("eks:DescribeCluster",), [cluster]),
        _allow(("sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"), [queue]),
    ]


def _owned(kind: str, described: EksCluster, *, region: bool = False) -> dict[str, dict[str, Any]]:
    found = {f"{kind}/kubernetes.io/cluster/{described.name}": "owned"}
    return {"StringEquals": found | ({f"{kind}/{_REGION}": described.region} if region else {})}


def _allow(
    actions: tuple[str, ...], resources: list[str], condition: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    found = {"Effect": "Allow", "Action": list(actions), "Resource": resources}
    return found | ({"Condition": dict(condition)} if condition else {})
