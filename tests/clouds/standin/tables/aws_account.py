"""An AWS account's roles, keys, image repositories, logs and scaling tags.

Which change replaces, and what stays when it is left out, is as in
github.com/hashicorp/terraform-provider-aws, internal/service: iam/role.go at 0040ea69,
iam/role_policy_attachment.go at 04c79849, kms/key.go at 00a35305, ecr/repository.go at 0072eea2,
logs/group.go at 0073593e, autoscaling/group_tag.go at 050ac111.
"""

from typing import Final

from tests.clouds.standin.table import Own, Pairs, Table
from tests.clouds.standin.tables.eks import REGION, ROLE_TYPE

ACCOUNT: Final = "123456789012"
POLICY_TYPE: Final = "aws:iam/policy:Policy"
KEY_TYPE: Final = "aws:kms/key:Key"
REPOSITORY_TYPE: Final = "aws:ecr/repository:Repository"

_TAGS: Final = Pairs("Tags")

ROLE: Final = Table(
    token=ROLE_TYPE,
    sdk="pulumi_aws.iam:RoleArgs",
    api="iam:CreateRole",
    id="{name}",
    unique=("name",),
    autonamed="name",
    replaces={"name": "RoleName", "path": "Path"},
    updates={
        "assumeRolePolicy": "AssumeRolePolicyDocument",
        "description": "Description",
        "maxSessionDuration": "MaxSessionDuration",
        "permissionsBoundary": "PermissionsBoundary",
        "managedPolicyArns": "iam:AttachRolePolicy/PolicyArn",
        "forceDetachPolicies": Own("detaches foreign policies before deleting", kind="boolean"),
        "tags": _TAGS,
    },
    outputs={"arn": "arn:aws:iam::{account}:role/{name}", "uniqueId": "AROA{hex}"},
)

POLICY: Final = Table(
    token=POLICY_TYPE,
    sdk="pulumi_aws.iam:PolicyArgs",
    api="iam:CreatePolicy",
    id="arn:aws:iam::{account}:policy/{name}",
    unique=("name",),
    autonamed="name",
    replaces={"name": "PolicyName", "path": "Path", "description": "Description"},
    updates={"policy": "PolicyDocument", "tags": _TAGS},
    outputs={"arn": "arn:aws:iam::{account}:policy/{name}"},
)

ROLE_POLICY: Final = Table(
    token="aws:iam/rolePolicy:RolePolicy",
    sdk="pulumi_aws.iam:RolePolicyArgs",
    api="iam:PutRolePolicy",
    id="{role}:{name}",
    unique=("role", "name"),
    autonamed="name",
    replaces={"name": "PolicyName", "role": "RoleName"},
    updates={"policy": "PolicyDocument"},
    refers={"role": (ROLE_TYPE,)},
)

ROLE_ATTACHMENT: Final = Table(
    token="aws:iam/rolePolicyAttachment:RolePolicyAttachment",
    sdk="pulumi_aws.iam:RolePolicyAttachmentArgs",
    api="iam:AttachRolePolicy",
    id="{role}-{hex}",
    unique=("role", "policyArn"),
    replaces={"role": "RoleName", "policyArn": "PolicyArn"},
    refers={"role": (ROLE_TYPE,)},
)

KEY: Final = Table(
    token=KEY_TYPE,
    sdk="pulumi_aws.kms:KeyArgs",
    api="kms:CreateKey",
    id="{hex}",
    replaces={"keyUsage": "KeyUsage", "multiRegion": "MultiRegion", "region": REGION},
    updates={
        "description": "Description",
        "policy": "Policy",
        "enableKeyRotation": Own("kms EnableKeyRotation", kind="boolean"),
        "rotationPeriodInDays": "kms:EnableKeyRotation/RotationPeriodInDays",
        "deletionWindowInDays": "kms:ScheduleKeyDeletion/PendingWindowInDays",
        "tags": Pairs("Tags", key="TagKey", value="TagValue"),
    },
    keeps=frozenset({"description", "policy", "multiRegion", "rotationPeriodInDays"}),
    outputs={"arn": "arn:aws:kms:{region}:{account}:key/{id}", "keyId": "{id}"},
)

ALIAS: Final = Table(
    token="aws:kms/alias:Alias",
    sdk="pulumi_aws.kms:AliasArgs",
    api="kms:CreateAlias",
    id="{name}",
    unique=("name",),
    replaces={"name": "AliasName", "region": REGION},
    updates={"targetKeyId": "TargetKeyId"},
    refers={"targetKeyId": (KEY_TYPE,)},
    outputs={"arn": "arn:aws:kms:{region}:{account}:{id}"},
)

REPOSITORY: Final = Table(
    token=REPOSITORY_TYPE,
    sdk="pulumi_aws.ecr:RepositoryArgs",
    api="ecr:CreateRepository",
    id="{name}",
    unique=("name",),
    autonamed="name",
    replaces={
        "name": "repositoryName",
        "region": REGION,
        "encryptionConfigurations.encryptionType": "encryptionConfiguration.encryptionType",
        "encryptionConfigurations.kmsKey": "encryptionConfiguration.kmsKey",
    },
    updates={
        "imageTagMutability": "imageTagMutability",
        "imageScanningConfiguration.scanOnPush": "imageScanningConfiguration.scanOnPush",
        "forceDelete": "ecr:DeleteRepository/force",
        "tags": Pairs("tags"),
    },
    keeps=frozenset({"encryptionConfigurations.kmsKey"}),
    outputs={
        "arn": "arn:aws:ecr:{region}:{account}:repository/{name}",
        "repositoryUrl": "{account}.dkr.ecr.{region}.amazonaws.com/{name}",
        "registryId": "{account}",
    },
)

LIFECYCLE: Final = Table(
    token="aws:ecr/lifecyclePolicy:LifecyclePolicy",
    sdk="pulumi_aws.ecr:LifecyclePolicyArgs",
    api="ecr:PutLifecyclePolicy",
    id="{repository}",
    unique=("repository",),
    replaces={"repository": "repositoryName", "region": REGION},
    updates={"policy": "lifecyclePolicyText"},
    refers={"repository": (REPOSITORY_TYPE,)},
)

LOG_GROUP: Final = Table(
    token="aws:cloudwatch/logGroup:LogGroup",
    sdk="pulumi_aws.cloudwatch:LogGroupArgs",
    api="logs:CreateLogGroup",
    id="{name}",
    unique=("name",),
    autonamed="name",
    replaces={"name": "logGroupName", "region": REGION, "logGroupClass": "logGroupClass"},
    updates={
        "retentionInDays": "logs:PutRetentionPolicy/retentionInDays",
        "kmsKeyId": "kmsKeyId",
        "skipDestroy": Own("leaves the group behind on destroy", kind="boolean"),
        "tags": "tags",
    },
    outputs={"arn": "arn:aws:logs:{region}:{account}:log-group:{name}"},
)

SCALING_TAG: Final = Table(
    token="aws:autoscaling/tag:Tag",
    sdk="pulumi_aws.autoscaling:TagArgs",
    api="autoscaling:CreateOrUpdateTags",
    id="{autoscalingGroupName},{hex}",
    replaces={"autoscalingGroupName": "Tags.ResourceId", "tag.key": "Tags.Key", "region": REGION},
    updates={"tag.value": "Tags.Value", "tag.propagateAtLaunch": "Tags.PropagateAtLaunch"},
)

TABLES: Final = (
    *(ROLE, POLICY, ROLE_POLICY, ROLE_ATTACHMENT, KEY, ALIAS),
    *(REPOSITORY, LIFECYCLE, LOG_GROUP, SCALING_TAG),
)
