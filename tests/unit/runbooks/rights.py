"""The rights in its cloud that making, changing and removing each resource takes.

From the permission references of both clouds:
https://cloud.google.com/iam/docs/permissions-reference and
https://docs.aws.amazon.com/service-authorization/latest/reference/, and from the calls in the providers'
sources that the tables of tests/clouds/standin name. Nothing was tried in a cloud.
"""

from typing import Final


def all_of(of: str, ends: str) -> tuple[str, ...]:
    return tuple(f"{of}{end}" for end in ends.split())


GOOGLE: Final[dict[str, tuple[str, ...]]] = {
    "compute.Firewall": (
        *all_of("compute.firewalls.", "create delete get update"),
        "compute.networks.updatePolicy",
        "compute.globalOperations.get",
    ),
    "compute.ResourcePolicy": (
        *all_of("compute.resourcePolicies.", "create delete get use"),
        "compute.regionOperations.get",
    ),
    "compute.Network": (
        *all_of("compute.networks.", "create delete get updatePolicy"),
        "compute.globalOperations.get",
    ),
    "compute.Subnetwork": (
        *all_of("compute.subnetworks.", "create delete get update expandIpCidrRange"),
        "compute.subnetworks.setPrivateIpGoogleAccess",
        "compute.networks.updatePolicy",
        "compute.regionOperations.get",
    ),
    "compute.Router": (
        *all_of("compute.routers.", "create delete get update"),
        "compute.networks.updatePolicy",
        "compute.regionOperations.get",
    ),
    "compute.RouterNat": (*all_of("compute.routers.", "get update"), "compute.regionOperations.get"),
    "container.Cluster": (
        *all_of("compute.networks.", "get use"),
        *all_of("compute.subnetworks.", "get use"),
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
    "projects.IAMMember": all_of("resourcemanager.projects.", "get getIamPolicy setIamPolicy"),
    "serviceaccount.Account": all_of("iam.serviceAccounts.", "create delete get update"),
    "serviceaccount.IAMMember": all_of("iam.serviceAccounts.", "get getIamPolicy setIamPolicy"),
    "storage.BucketIAMMember": all_of("storage.buckets.", "get getIamPolicy setIamPolicy"),
    "artifactregistry.Repository": all_of("artifactregistry.repositories.", "create delete get update"),
}

# What commands beside `pulumi up` take.
GOOGLE_COMMANDS: Final[dict[str, tuple[str, ...]]] = {
    "make image push": all_of("artifactregistry.repositories.", "downloadArtifacts uploadArtifacts"),
    "muster doctor": (
        "compute.acceleratorTypes.list",
        "compute.machineTypes.list",
        "compute.projects.get",
        "compute.regions.get",
        "serviceusage.services.get",
    ),
    "make backend, pulumi's state and secrets": (
        *all_of("cloudkms.cryptoKeyVersions.", "useToDecrypt useToEncrypt"),
        *all_of("cloudkms.cryptoKeys.", "create get"),
        *all_of("cloudkms.keyRings.", "create get"),
        *all_of("storage.buckets.", "create get"),
        *all_of("storage.objects.", "create delete get list update"),
    ),
}

AMAZON: Final[dict[str, tuple[str, ...]]] = {
    "autoscaling.Tag": (
        *all_of("autoscaling:", "CreateOrUpdateTags DeleteTags DescribeTags"),
        "autoscaling:DescribeAutoScalingGroups",
    ),
    "cloudwatch.EventRule": (
        *all_of("events:", "DeleteRule DescribeRule ListTagsForResource PutRule"),
        *all_of("events:", "TagResource UntagResource"),
    ),
    "cloudwatch.EventTarget": all_of("events:", "ListTargetsByRule PutTargets RemoveTargets"),
    "cloudwatch.LogGroup": (
        *all_of("logs:", "CreateLogGroup DeleteLogGroup DescribeLogGroups"),
        *all_of("logs:", "PutRetentionPolicy TagResource UntagResource"),
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
        *all_of("ec2:", "CreateInternetGateway DeleteInternetGateway"),
        *all_of("ec2:", "AttachInternetGateway DetachInternetGateway"),
        "ec2:DescribeInternetGateways",
    ),
    "ec2.LaunchTemplate": (
        *all_of("ec2:", "CreateLaunchTemplate CreateLaunchTemplateVersion"),
        *all_of("ec2:", "DeleteLaunchTemplate ModifyLaunchTemplate"),
        *all_of("ec2:", "DescribeLaunchTemplates DescribeLaunchTemplateVersions"),
        "ec2:RunInstances",
    ),
    "ec2.NatGateway": all_of("ec2:", "CreateNatGateway DeleteNatGateway DescribeNatGateways"),
    "ec2.PlacementGroup": (
        *all_of("ec2:", "CreatePlacementGroup DeletePlacementGroup"),
        "ec2:DescribePlacementGroups",
    ),
    "ec2.Route": all_of("ec2:", "CreateRoute DeleteRoute ReplaceRoute"),
    "ec2.RouteTable": all_of("ec2:", "CreateRouteTable DeleteRouteTable DescribeRouteTables"),
    "ec2.RouteTableAssociation": (
        *all_of("ec2:", "AssociateRouteTable DisassociateRouteTable"),
        "ec2:ReplaceRouteTableAssociation",
    ),
    "ec2.SecurityGroup": (
        *all_of("ec2:", "CreateSecurityGroup DeleteSecurityGroup"),
        *all_of("ec2:", "DescribeSecurityGroups RevokeSecurityGroupEgress"),
        "ec2:DescribeNetworkInterfaces",
    ),
    "ec2.Subnet": (
        *all_of("ec2:", "CreateSubnet DeleteSubnet DescribeSubnets"),
        *all_of("ec2:", "DescribeNetworkInterfaces ModifySubnetAttribute"),
    ),
    "ec2.Vpc": (
        *all_of("ec2:", "CreateVpc DeleteVpc DescribeVpcs DescribeVpcAttribute"),
        *all_of("ec2:", "DescribeNetworkAcls DescribeRouteTables"),
        *all_of("ec2:", "DescribeSecurityGroups ModifyVpcAttribute CreateTags"),
        *all_of("ec2:", "DeleteTags DescribeTags"),
    ),
    "ec2.VpcEndpoint": (
        *all_of("ec2:", "CreateVpcEndpoint DeleteVpcEndpoints DescribeVpcEndpoints"),
        *all_of("ec2:", "ModifyVpcEndpoint DescribePrefixLists"),
    ),
    "ecr.Repository": (
        *all_of("ecr:", "CreateRepository DeleteRepository DescribeRepositories"),
        *all_of("ecr:", "ListTagsForResource TagResource UntagResource"),
        *all_of("ecr:", "PutImageTagMutability PutImageScanningConfiguration"),
    ),
    "eks.AccessEntry": (
        *all_of("eks:", "CreateAccessEntry DeleteAccessEntry DescribeAccessEntry"),
        "eks:UpdateAccessEntry",
    ),
    "eks.AccessPolicyAssociation": (
        *all_of("eks:", "AssociateAccessPolicy DisassociateAccessPolicy"),
        "eks:ListAssociatedAccessPolicies",
    ),
    "eks.Addon": (
        *all_of("eks:", "CreateAddon DeleteAddon DescribeAddon UpdateAddon"),
        "eks:DescribeAddonVersions",
    ),
    "eks.Cluster": (
        *all_of("eks:", "CreateCluster DeleteCluster DescribeCluster"),
        *all_of("eks:", "UpdateClusterConfig UpdateClusterVersion DescribeUpdate"),
        *all_of("eks:", "TagResource UntagResource ListTagsForResource"),
        *all_of("iam:", "PassRole CreateServiceLinkedRole"),
    ),
    "eks.NodeGroup": (
        *all_of("eks:", "CreateNodegroup DeleteNodegroup DescribeNodegroup"),
        *all_of("eks:", "UpdateNodegroupConfig UpdateNodegroupVersion"),
        "iam:PassRole",
    ),
    "eks.PodIdentityAssociation": (
        *all_of("eks:", "CreatePodIdentityAssociation DeletePodIdentityAssociation"),
        *all_of("eks:", "DescribePodIdentityAssociation UpdatePodIdentityAssociation"),
        "iam:PassRole",
    ),
    "iam.Role": (
        *all_of("iam:", "CreateRole DeleteRole GetRole UpdateRole"),
        *all_of("iam:", "UpdateAssumeRolePolicy TagRole UntagRole ListRolePolicies"),
        *all_of("iam:", "ListAttachedRolePolicies ListInstanceProfilesForRole"),
    ),
    "iam.RolePolicy": all_of("iam:", "PutRolePolicy DeleteRolePolicy GetRolePolicy"),
    "iam.RolePolicyAttachment": (
        *all_of("iam:", "AttachRolePolicy DetachRolePolicy ListAttachedRolePolicies"),
    ),
    "kms.Key": (
        *all_of("kms:", "CreateKey DescribeKey EnableKeyRotation GetKeyPolicy"),
        *all_of("kms:", "PutKeyPolicy GetKeyRotationStatus ListResourceTags"),
        *all_of("kms:", "ScheduleKeyDeletion TagResource UntagResource CreateGrant"),
    ),
    "vpc.SecurityGroupEgressRule": (
        *all_of("ec2:", "AuthorizeSecurityGroupEgress RevokeSecurityGroupEgress"),
        *all_of("ec2:", "DescribeSecurityGroupRules ModifySecurityGroupRules"),
    ),
    "vpc.SecurityGroupIngressRule": (
        *all_of("ec2:", "AuthorizeSecurityGroupIngress RevokeSecurityGroupIngress"),
        *all_of("ec2:", "DescribeSecurityGroupRules ModifySecurityGroupRules"),
    ),
    "sqs.Queue": (
        *all_of("sqs:", "CreateQueue DeleteQueue GetQueueAttributes GetQueueUrl"),
        *all_of("sqs:", "ListQueueTags SetQueueAttributes TagQueue UntagQueue"),
    ),
    "sqs.QueuePolicy": all_of("sqs:", "GetQueueAttributes SetQueueAttributes"),
}

# What the program asks the cloud itself, in every preview and `up`.
AMAZON_FUNCTIONS: Final[dict[str, tuple[str, ...]]] = {
    "aws:eks/getClusters:getClusters": ("eks:ListClusters",),
    "aws:eks/getCluster:getCluster": ("eks:DescribeCluster",),
}

AMAZON_COMMANDS: Final[dict[str, tuple[str, ...]]] = {
    "make image push": (
        *all_of("ecr:", "GetAuthorizationToken BatchCheckLayerAvailability"),
        *all_of("ecr:", "InitiateLayerUpload UploadLayerPart CompleteLayerUpload"),
        *all_of("ecr:", "PutImage BatchGetImage GetDownloadUrlForLayer"),
        "sts:GetCallerIdentity",
    ),
    "muster doctor": (
        "servicequotas:GetServiceQuota",
        *all_of("ec2:", "DescribeInstanceTypeOfferings DescribeInstanceTypes"),
    ),
    "make backend, pulumi's state and secrets": (
        *all_of("kms:", "CreateAlias Encrypt Decrypt GenerateDataKey"),
        *all_of("s3:", "CreateBucket PutBucketPublicAccessBlock"),
        *all_of("s3:", "PutEncryptionConfiguration PutBucketVersioning"),
        *all_of("s3:", "PutBucketPolicy PutBucketOwnershipControls ListBucket"),
        *all_of("s3:", "GetObject PutObject DeleteObject"),
    ),
}
