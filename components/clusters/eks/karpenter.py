"""What Karpenter has in AWS: a role for itself and one for its nodes, and a queue on which EC2 announces that
a machine will be taken away.

Not responsible for the program (components/karpenter.py). Rights and events are those of Karpenter's own
template (https://karpenter.sh/docs/reference/cloudformation/), and each call is one that its source makes
(pkg/aws/sdk.go of 1.14.1). Each right to change something is bound to this cluster's tag.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pulumi
import pulumi_aws as aws

from muster.components.clusters.eks import roles
from muster.model import names
from muster.model.clusters import EksCluster

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
