"""EKS clusters, node groups and who may reach them, service eks.

Which change replaces, and what stays when it is left out, is as in
github.com/hashicorp/terraform-provider-aws, internal/service/eks: cluster.go at 00555dc5, node_group.go at
012e0a32, access_entry.go and access_policy_association.go at 01f43111, addon.go and
pod_identity_association.go at 00a35305.
"""

from typing import Final

from tests.clouds.standin.table import Own, Table, same

CLUSTER_TYPE: Final = "aws:eks/cluster:Cluster"
NODE_GROUP_TYPE: Final = "aws:eks/nodeGroup:NodeGroup"
ACCESS_ENTRY_TYPE: Final = "aws:eks/accessEntry:AccessEntry"
ACCESS_POLICY_TYPE: Final = "aws:eks/accessPolicyAssociation:AccessPolicyAssociation"
POD_IDENTITY_TYPE: Final = "aws:eks/podIdentityAssociation:PodIdentityAssociation"
ROLE_TYPE: Final = "aws:iam/role:Role"
SUBNET_TYPE: Final = "aws:ec2/subnet:Subnet"
TEMPLATE_TYPE: Final = "aws:ec2/launchTemplate:LaunchTemplate"

# The region of the one request, which every resource has since provider 7.
REGION: Final = Own("the request's region")

CLUSTER: Final = Table(
    token=CLUSTER_TYPE,
    sdk="pulumi_aws.eks:ClusterArgs",
    api="eks:CreateCluster",
    id="{name}",
    unique=("name",),
    autonamed="name",
    seconds=600,
    replaces={
        "name": "name",
        "region": REGION,
        **same(
            "roleArn bootstrapSelfManagedAddons accessConfig.bootstrapClusterCreatorAdminPermissions",
            "kubernetesNetworkConfig.ipFamily kubernetesNetworkConfig.serviceIpv4Cidr",
        ),
    },
    updates={
        **same("version accessConfig.authenticationMode"),
        "vpcConfig.subnetIds": "resourcesVpcConfig.subnetIds",
        "vpcConfig.securityGroupIds": "resourcesVpcConfig.securityGroupIds",
        "vpcConfig.endpointPrivateAccess": "resourcesVpcConfig.endpointPrivateAccess",
        "vpcConfig.endpointPublicAccess": "resourcesVpcConfig.endpointPublicAccess",
        "vpcConfig.publicAccessCidrs": "resourcesVpcConfig.publicAccessCidrs",
        "enabledClusterLogTypes": "logging.clusterLogging.types",
        **same(
            "encryptionConfig.provider.keyArn",
            "encryptionConfig.resources",
            "upgradePolicy.supportType",
            "zonalShiftConfig.enabled",
            "deletionProtection",
            "tags",
            # Auto Mode: cluster.go at 00555dc5 takes each in place.
            "computeConfig.enabled",
            "computeConfig.nodePools",
            "computeConfig.nodeRoleArn",
            "kubernetesNetworkConfig.elasticLoadBalancing.enabled",
            "storageConfig.blockStorage.enabled",
        ),
    },
    keeps=frozenset(
        {
            *("version", "accessConfig", "kubernetesNetworkConfig", "upgradePolicy"),
            "vpcConfig.publicAccessCidrs",
        }
    ),
    refers={
        "roleArn": (ROLE_TYPE,),
        "vpcConfig.subnetIds": (SUBNET_TYPE,),
        "vpcConfig.securityGroupIds": ("aws:ec2/securityGroup:SecurityGroup",),
        "encryptionConfig.provider.keyArn": ("aws:kms/key:Key",),
    },
    brings={"aws:ec2/securityGroup:SecurityGroup": "vpcConfig.clusterSecurityGroupId"},
    follows={"vpc": ("vpcConfig.subnetIds", "vpcId")},
    outputs={
        "arn": "arn:aws:eks:{region}:{account}:cluster/{name}",
        "endpoint": "{endpoint_url}",
        "certificateAuthority": {"data": "{ca}"},
        "certificateAuthorities": [{"data": "{ca}"}],
        "identities": [{"oidcs": [{"issuer": "https://oidc.eks.{region}.amazonaws.com/id/{hex}"}]}],
        "vpcConfig": {"clusterSecurityGroupId": "sg-{hex}", "vpcId": "{vpc}"},
        "status": "ACTIVE",
        "platformVersion": "eks.1",
    },
)

NODE_GROUP: Final = Table(
    token=NODE_GROUP_TYPE,
    sdk="pulumi_aws.eks:NodeGroupArgs",
    api="eks:CreateNodegroup",
    id="{clusterName}:{nodeGroupName}",
    unique=("clusterName", "nodeGroupName"),
    autonamed="nodeGroupName",
    seconds=150,
    timeout=3600,
    replaces={
        "clusterName": "clusterName",
        "nodeGroupName": "nodegroupName",
        "region": REGION,
        "nodeRoleArn": "nodeRole",
        "subnetIds": "subnets",
        **same("amiType capacityType instanceTypes diskSize launchTemplate.id launchTemplate.name"),
    },
    updates={
        **same(
            "scalingConfig.minSize scalingConfig.maxSize scalingConfig.desiredSize",
            "launchTemplate.version labels taints.key taints.value taints.effect",
            "updateConfig.maxUnavailable updateConfig.maxUnavailablePercentage",
            "updateConfig.updateStrategy nodeRepairConfig.enabled version releaseVersion",
        ),
        "forceUpdateVersion": "eks:UpdateNodegroupVersion/force",
        "tags": "tags",
    },
    keeps=frozenset(
        {
            *("amiType", "capacityType", "instanceTypes", "diskSize", "version", "releaseVersion"),
            *("nodeRepairConfig", "updateConfig"),
        }
    ),
    refers={
        "clusterName": (CLUSTER_TYPE,),
        "nodeRoleArn": (ROLE_TYPE,),
        "subnetIds": (SUBNET_TYPE,),
        "launchTemplate.id": (TEMPLATE_TYPE,),
        "launchTemplate.name": (TEMPLATE_TYPE,),
    },
    outputs={
        "arn": "arn:aws:eks:{region}:{account}:nodegroup/{clusterName}/{nodeGroupName}/{hex}",
        "resources": [
            {"autoscalingGroups": [{"name": "eks-{nodeGroupName}-{hex}"}], "remoteAccessSecurityGroupId": ""}
        ],
        "status": "ACTIVE",
    },
)

ACCESS_ENTRY: Final = Table(
    token=ACCESS_ENTRY_TYPE,
    sdk="pulumi_aws.eks:AccessEntryArgs",
    api="eks:CreateAccessEntry",
    id="{clusterName}:{principalArn}",
    unique=("clusterName", "principalArn"),
    replaces={"clusterName": "clusterName", "principalArn": "principalArn", "type": "type", "region": REGION},
    updates={"kubernetesGroups": "kubernetesGroups", "userName": "username", "tags": "tags"},
    keeps=frozenset({"kubernetesGroups", "userName"}),
    refers={"clusterName": (CLUSTER_TYPE,)},
    outputs={"accessEntryArn": "arn:aws:eks:{region}:{account}:access-entry/{clusterName}/{hex}"},
)

ACCESS_POLICY: Final = Table(
    token=ACCESS_POLICY_TYPE,
    sdk="pulumi_aws.eks:AccessPolicyAssociationArgs",
    api="eks:AssociateAccessPolicy",
    id="{clusterName}#{principalArn}#{policyArn}",
    unique=("clusterName", "principalArn", "policyArn"),
    replaces={
        **same("clusterName principalArn policyArn accessScope.type accessScope.namespaces"),
        "region": REGION,
    },
    refers={"clusterName": (CLUSTER_TYPE,)},
)

ADDON: Final = Table(
    token="aws:eks/addon:Addon",
    sdk="pulumi_aws.eks:AddonArgs",
    api="eks:CreateAddon",
    id="{clusterName}:{addonName}",
    unique=("clusterName", "addonName"),
    seconds=60,
    timeout=1200,
    replaces={"clusterName": "clusterName", "addonName": "addonName", "region": REGION},
    updates={
        **same("addonVersion configurationValues"),
        "resolveConflictsOnCreate": "resolveConflicts",
        "resolveConflictsOnUpdate": "eks:UpdateAddon/resolveConflicts",
        "serviceAccountRoleArn": "serviceAccountRoleArn",
        "preserve": "eks:DeleteAddon/preserve",
        **same("podIdentityAssociations.roleArn podIdentityAssociations.serviceAccount tags"),
    },
    keeps=frozenset({"addonVersion", "configurationValues"}),
    refers={
        "clusterName": (CLUSTER_TYPE,),
        "serviceAccountRoleArn": (ROLE_TYPE,),
        "podIdentityAssociations.roleArn": (ROLE_TYPE,),
    },
    outputs={"arn": "arn:aws:eks:{region}:{account}:addon/{clusterName}/{addonName}/{hex}"},
)

POD_IDENTITY: Final = Table(
    token=POD_IDENTITY_TYPE,
    sdk="pulumi_aws.eks:PodIdentityAssociationArgs",
    api="eks:CreatePodIdentityAssociation",
    id="a-{hex}",
    unique=("clusterName", "namespace", "serviceAccount"),
    replaces={**same("clusterName namespace serviceAccount"), "region": REGION},
    updates={"roleArn": "roleArn", "disableSessionTags": "disableSessionTags", "tags": "tags"},
    refers={"clusterName": (CLUSTER_TYPE,), "roleArn": (ROLE_TYPE,)},
    outputs={"associationId": "{id}"},
)

TABLES: Final = (CLUSTER, NODE_GROUP, ACCESS_ENTRY, ACCESS_POLICY, ADDON, POD_IDENTITY)
