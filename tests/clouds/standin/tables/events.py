"""Queues of SQS and rules of EventBridge.

Which change replaces, and what stays when it is left out, is as in
github.com/hashicorp/terraform-provider-aws, internal/service: sqs/queue.go and sqs/queue_policy.go,
events/rule.go and events/target.go, written from general knowledge of them.
"""

from typing import Final

from tests.clouds.standin.table import Own, Pairs, Table
from tests.clouds.standin.tables.eks import REGION

QUEUE_TYPE: Final = "aws:sqs/queue:Queue"
QUEUE_POLICY_TYPE: Final = "aws:sqs/queuePolicy:QueuePolicy"
RULE_TYPE: Final = "aws:cloudwatch/eventRule:EventRule"
TARGET_TYPE: Final = "aws:cloudwatch/eventTarget:EventTarget"

QUEUE: Final = Table(
    token=QUEUE_TYPE,
    sdk="pulumi_aws.sqs:QueueArgs",
    api="sqs:CreateQueue",
    id="https://sqs.{region}.amazonaws.com/{account}/{name}",
    unique=("name",),
    autonamed="name",
    # The provider waits until attributes are everywhere.
    seconds=60,
    replaces={"name": "QueueName", "region": REGION},
    updates={
        "messageRetentionSeconds": Own("attribute MessageRetentionPeriod", kind="integer"),
        "sqsManagedSseEnabled": Own("attribute SqsManagedSseEnabled", kind="boolean"),
        "tags": "tags",
    },
    keeps=frozenset({"sqsManagedSseEnabled"}),
    outputs={"arn": "arn:aws:sqs:{region}:{account}:{name}", "url": "{id}"},
)

QUEUE_POLICY: Final = Table(
    token=QUEUE_POLICY_TYPE,
    sdk="pulumi_aws.sqs:QueuePolicyArgs",
    api="sqs:SetQueueAttributes",
    id="{queueUrl}",
    unique=("queueUrl",),
    replaces={"queueUrl": "QueueUrl", "region": REGION},
    updates={"policy": Own("attribute Policy")},
    refers={"queueUrl": (QUEUE_TYPE,)},
)

RULE: Final = Table(
    token=RULE_TYPE,
    sdk="pulumi_aws.cloudwatch:EventRuleArgs",
    api="events:PutRule",
    id="{name}",
    unique=("name",),
    autonamed="name",
    replaces={"name": "Name", "eventBusName": "EventBusName", "region": REGION},
    updates={"description": "Description", "eventPattern": "EventPattern", "tags": Pairs("Tags")},
    outputs={"arn": "arn:aws:events:{region}:{account}:rule/{name}"},
)

TARGET: Final = Table(
    token=TARGET_TYPE,
    sdk="pulumi_aws.cloudwatch:EventTargetArgs",
    api="events:PutTargets",
    id="{rule}-{hex}",
    replaces={"rule": "Rule", "targetId": "Targets.Id", "eventBusName": "EventBusName", "region": REGION},
    updates={"arn": "Targets.Arn"},
    refers={"rule": (RULE_TYPE,), "arn": (QUEUE_TYPE,)},
)

TABLES: Final = (QUEUE, QUEUE_POLICY, RULE, TARGET)
