"""The rights in its cloud that making, changing and removing each resource takes.

From the permission references of both clouds:
https://cloud.google.com/iam/docs/permissions-reference and
https://docs.aws.amazon.com/service-authorization/latest/reference/, and from the calls in the providers'
sources that the tables of tests/clouds/standin name. Nothing was tried in a cloud.
"""

from typing import Final

GOOGLE: Final[dict[str, tuple[str, ...]]] = {
    "compute.Firewall": (
        "compute.firewalls.create",
        "compute.firewalls.delete",
        "compute.firewalls.get",
        "compute.firewalls.update",
        "compute.networks.updatePolicy",
        "compute.globalOperations.get",
    ),
    "compute.ResourcePolicy": (
        "compute.resourcePolicies.create",
        "compute.resourcePolicies.delete",
        "compute.resourcePolicies.get",
        "compute.resourcePolicies.use",
        "compute.regionOperations.get",
    ),
    "compute.Network": (
        "compute.networks.create",
        "compute.networks.delete",
        "compute.networks.get",
        "compute.networks.updatePolicy",
        "compute.globalOperations.get",
    ),
    "compute.Subnetwork": (
        "compute.subnetworks.create",
        "compute.subnetworks.delete",
        "compute.subnetworks.get",
        "compute.subnetworks.update",
        "compute.subnetworks.expandIpCidrRange",
        "compute.subnetworks.setPrivateIpGoogleAccess",
        "compute.networks.updatePolicy",
        "compute.regionOperations.get",
    ),
    "compute.Router": (
        "compute.routers.create",
        "compute.routers.delete",
        "compute.routers.get",
        "compute.routers.update",
        "compute.networks.updatePolicy",
        "compute.regionOperations.get",
    ),
    "compute.RouterNat": (
        "compute.routers.get",
        "compute.routers.update",
        "compute.regionOperations.get",
    ),
    "container.Cluster": (
        "compute.networks.get",
        "compute.subnetworks.get",
        "compute.subnetworks.use",
        "compute.networks.use",
        "iam.serviceAccounts.actAs",
    ),
    "container.NodePool": (
        # A read asks the pool's instance groups how many nodes they have, and fails without an answer
        # (flattenNodePool in hashicorp/terraform-provider-google-beta); roles/container.admin has neither.
        "compute.instanceGroupManagers.get",
        "compute.instanceGroupManagers.list",
        "compute.reservations.get",
        "iam.serviceAccounts.actAs",
    ),
    "projects.IAMMember": (
        "resourcemanager.projects.get",
        "resourcemanager.projects.getIamPolicy",
        "resourcemanager.projects.setIamPolicy",
    ),
    "serviceaccount.Account": (
        "iam.serviceAccounts.create",
        "iam.serviceAccounts.delete",
        "iam.serviceAccounts.get",
        "iam.serviceAccounts.update",
    ),
    "serviceaccount.IAMMember": (
        "iam.serviceAccounts.get",
        "iam.serviceAccounts.getIamPolicy",
        "iam.serviceAccounts.setIamPolicy",
    ),
    "storage.BucketIAMMember": (
        "storage.buckets.get",
        "storage.buckets.getIamPolicy",
        "storage.buckets.setIamPolicy",
    ),
    "artifactregistry.Repository": (
        "artifactregistry.repositories.create",
        "artifactregistry.repositories.delete",
        "artifactregistry.repositories.get",
        "artifactregistry.repositories.update",
    ),
}

# What commands beside `pulumi up` take.
GOOGLE_COMMANDS: Final[dict[str, tuple[str, ...]]] = {
    "make image push": (
        "artifactregistry.repositories.downloadArtifacts",
        "artifactregistry.repositories.uploadArtifacts",
    ),
    "muster doctor": (
        "compute.acceleratorTypes.list",
        "compute.machineTypes.list",
        "compute.projects.get",
        "compute.regions.get",
        "serviceusage.services.get",
    ),
    "make backend, pulumi's state and secrets": (
        "cloudkms.cryptoKeyVersions.useToDecrypt",
        "cloudkms.cryptoKeyVersions.useToEncrypt",
        "cloudkms.cryptoKeys.create",
        "cloudkms.cryptoKeys.get",
        "cloudkms.keyRings.create",
        "cloudkms.keyRings.get",
        "storage.buckets.create",
        "storage.buckets.get",
        "storage.objects.create",
        "storage.objects.delete",
        "storage.objects.get",
        "storage.objects.list",
        "storage.objects.update",
    ),
}

AMAZON: Final[dict[str, tuple[str, ...]]] = {
    "autoscaling.Tag": (
        "autoscaling:CreateOrUpdateTags",
        "autoscaling:DeleteTags",
        "autoscaling:DescribeTags",
        "autoscaling:DescribeAutoScalingGroups",
    ),
    "cloudwatch.EventRule": (
        "events:DeleteRule",
        "events:DescribeRule",
        "events:ListTagsForResource",
        "events:PutRule",
        "events:TagResource",
        "events:UntagResource",
    ),
    "cloudwatch.EventTarget": (
        "events:ListTargetsByRule",
        "events:PutTargets",
        "events:RemoveTargets",
    ),
    "cloudwatch.LogGroup": (
        "logs:CreateLogGroup",
        "logs:DeleteLogGroup",
        "logs:DescribeLogGroups",
        "logs:PutRetentionPolicy",
        "logs:TagResource",
        "logs:UntagResource",
        "logs:ListTagsForResource",
    ),
    "ec2.Eip": (
        "ec2:AllocateAddress",
        "ec2:ReleaseAddress",
        "ec2:DescribeAddresses",
        "ec2:DescribeAddressesAttribute",
        # Once a refresh has seen its NAT gateway, deleting it begins with this (resourceEIPDelete in
        # hashicorp/terraform-provider-aws).
        "ec2:DisassociateAddress",
    ),
    "ec2.InternetGateway": (
        "ec2:CreateInternetGateway",
        "ec2:DeleteInternetGateway",
        "ec2:AttachInternetGateway",
        "ec2:DetachInternetGateway",
        "ec2:DescribeInternetGateways",
    ),
    "ec2.LaunchTemplate": (
        "ec2:CreateLaunchTemplate",
        "ec2:CreateLaunchTemplateVersion",
        "ec2:DeleteLaunchTemplate",
        "ec2:ModifyLaunchTemplate",
        "ec2:DescribeLaunchTemplates",
        "ec2:DescribeLaunchTemplateVersions",
        "ec2:RunInstances",
    ),
    "ec2.NatGateway": (
        "ec2:CreateNatGateway",
        "ec2:DeleteNatGateway",
        "ec2:DescribeNatGateways",
    ),
    "ec2.PlacementGroup": (
        "ec2:CreatePlacementGroup",
        "ec2:DeletePlacementGroup",
        "ec2:DescribePlacementGroups",
    ),
    "ec2.Route": (
        "ec2:CreateRoute",
        "ec2:DeleteRoute",
        "ec2:ReplaceRoute",
    ),
    "ec2.RouteTable": (
        "ec2:CreateRouteTable",
        "ec2:DeleteRouteTable",
        "ec2:DescribeRouteTables",
    ),
    "ec2.RouteTableAssociation": (
        "ec2:AssociateRouteTable",
        "ec2:DisassociateRouteTable",
        "ec2:ReplaceRouteTableAssociation",
    ),
    "ec2.SecurityGroup": (
        "ec2:CreateSecurityGroup",
        "ec2:DeleteSecurityGroup",
        "ec2:DescribeSecurityGroups",
        "ec2:RevokeSecurityGroupEgress",
        "ec2:DescribeNetworkInterfaces",
    ),
    "ec2.Subnet": (
        "ec2:CreateSubnet",
        "ec2:DeleteSubnet",
        "ec2:DescribeSubnets",
        "ec2:DescribeNetworkInterfaces",
        "ec2:ModifySubnetAttribute",
    ),
    "ec2.Vpc": (
        "ec2:CreateVpc",
        "ec2:DeleteVpc",
        "ec2:DescribeVpcs",
        "ec2:DescribeVpcAttribute",
        "ec2:DescribeNetworkAcls",
        "ec2:DescribeRouteTables",
        "ec2:DescribeSecurityGroups",
        "ec2:ModifyVpcAttribute",
        "ec2:CreateTags",
        "ec2:DeleteTags",
        "ec2:DescribeTags",
    ),
    "ec2.VpcEndpoint": (
        "ec2:CreateVpcEndpoint",
        "ec2:DeleteVpcEndpoints",
        "ec2:DescribeVpcEndpoints",
        "ec2:ModifyVpcEndpoint",
        "ec2:DescribePrefixLists",
    ),
    "ecr.Repository": (
        "ecr:CreateRepository",
        "ecr:DeleteRepository",
        "ecr:DescribeRepositories",
        "ecr:ListTagsForResource",
        "ecr:TagResource",
        "ecr:UntagResource",
        "ecr:PutImageTagMutability",
        "ecr:PutImageScanningConfiguration",
    ),
    "eks.AccessEntry": (
        "eks:CreateAccessEntry",
        "eks:DeleteAccessEntry",
        "eks:DescribeAccessEntry",
        "eks:UpdateAccessEntry",
    ),
    "eks.AccessPolicyAssociation": (
        "eks:AssociateAccessPolicy",
        "eks:DisassociateAccessPolicy",
        "eks:ListAssociatedAccessPolicies",
    ),
    "eks.Addon": (
        "eks:CreateAddon",
        "eks:DeleteAddon",
        "eks:DescribeAddon",
        "eks:UpdateAddon",
        "eks:DescribeAddonVersions",
    ),
    "eks.Cluster": (
        "eks:CreateCluster",
        "eks:DeleteCluster",
        "eks:DescribeCluster",
        "eks:UpdateClusterConfig",
        "eks:UpdateClusterVersion",
        "eks:DescribeUpdate",
        "eks:TagResource",
        "eks:UntagResource",
        "eks:ListTagsForResource",
        "iam:PassRole",
        "iam:CreateServiceLinkedRole",
    ),
    "eks.NodeGroup": (
        "eks:CreateNodegroup",
        "eks:DeleteNodegroup",
        "eks:DescribeNodegroup",
        "eks:UpdateNodegroupConfig",
        "eks:UpdateNodegroupVersion",
        "iam:PassRole",
    ),
    "eks.PodIdentityAssociation": (
        "eks:CreatePodIdentityAssociation",
        "eks:DeletePodIdentityAssociation",
        "eks:DescribePodIdentityAssociation",
        "eks:UpdatePodIdentityAssociation",
        "iam:PassRole",
    ),
    "iam.Role": (
        "iam:CreateRole",
        "iam:DeleteRole",
        "iam:GetRole",
        "iam:UpdateRole",
        "iam:UpdateAssumeRolePolicy",
        "iam:TagRole",
        "iam:UntagRole",
        "iam:ListRolePolicies",
        "iam:ListAttachedRolePolicies",
        "iam:ListInstanceProfilesForRole",
    ),
    "iam.RolePolicy": (
        "iam:PutRolePolicy",
        "iam:DeleteRolePolicy",
        "iam:GetRolePolicy",
    ),
    "iam.RolePolicyAttachment": (
        "iam:AttachRolePolicy",
        "iam:DetachRolePolicy",
        "iam:ListAttachedRolePolicies",
    ),
    "kms.Key": (
        "kms:CreateKey",
        "kms:DescribeKey",
        "kms:EnableKeyRotation",
        "kms:GetKeyPolicy",
        "kms:PutKeyPolicy",
        "kms:GetKeyRotationStatus",
        "kms:ListResourceTags",
        "kms:ScheduleKeyDeletion",
        "kms:TagResource",
        "kms:UntagResource",
        "kms:CreateGrant",
    ),
    "vpc.SecurityGroupEgressRule": (
        "ec2:AuthorizeSecurityGroupEgress",
        "ec2:RevokeSecurityGroupEgress",
        "ec2:DescribeSecurityGroupRules",
        "ec2:ModifySecurityGroupRules",
    ),
    "vpc.SecurityGroupIngressRule": (
        "ec2:AuthorizeSecurityGroupIngress",
        "ec2:RevokeSecurityGroupIngress",
        "ec2:DescribeSecurityGroupRules",
        "ec2:ModifySecurityGroupRules",
    ),
    "sqs.Queue": (
        "sqs:CreateQueue",
        "sqs:DeleteQueue",
        "sqs:GetQueueAttributes",
        "sqs:GetQueueUrl",
        "sqs:ListQueueTags",
        "sqs:SetQueueAttributes",
        "sqs:TagQueue",
        "sqs:UntagQueue",
    ),
    "sqs.QueuePolicy": (
        "sqs:GetQueueAttributes",
        "sqs:SetQueueAttributes",
    ),
}

# What the program asks the cloud itself, in every preview and `up`.
AMAZON_FUNCTIONS: Final[dict[str, tuple[str, ...]]] = {
    "aws:eks/getClusters:getClusters": ("eks:ListClusters",),
    "aws:eks/getCluster:getCluster": ("eks:DescribeCluster",),
}

AMAZON_COMMANDS: Final[dict[str, tuple[str, ...]]] = {
    "make image push": (
        "ecr:GetAuthorizationToken",
        "ecr:BatchCheckLayerAvailability",
        "ecr:InitiateLayerUpload",
        "ecr:UploadLayerPart",
        "ecr:CompleteLayerUpload",
        "ecr:PutImage",
        "ecr:BatchGetImage",
        "ecr:GetDownloadUrlForLayer",
        "sts:GetCallerIdentity",
    ),
    "muster doctor": (
        "servicequotas:GetServiceQuota",
        "ec2:DescribeInstanceTypeOfferings",
        "ec2:DescribeInstanceTypes",
    ),
    "make backend, pulumi's state and secrets": (
        "kms:CreateAlias",
        "kms:Encrypt",
        "kms:Decrypt",
        "kms:GenerateDataKey",
        "s3:CreateBucket",
        "s3:PutBucketPublicAccessBlock",
        "s3:PutEncryptionConfiguration",
        "s3:PutBucketVersioning",
        "s3:PutBucketPolicy",
        "s3:PutBucketOwnershipControls",
        "s3:ListBucket",
        "s3:GetObject",
        "s3:PutObject",
        "s3:DeleteObject",
    ),
}
