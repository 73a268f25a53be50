"""What EKS says of clusters and access beyond its service model."""

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

from tests.clouds.standin.refusal import Refusal
from tests.clouds.standin.rules import alone, among
from tests.clouds.standin.rules.trust import trusts
from tests.clouds.standin.tables.eks import (
    ACCESS_ENTRY_TYPE,
    ACCESS_POLICY_TYPE,
    ADDON,
    CLUSTER_TYPE,
    POD_IDENTITY_TYPE,
    ROLE_TYPE,
    SUBNET_TYPE,
)
from tests.clouds.standin.values import Inputs, each, get, leaves

Find = Callable[[str, Any], Inputs | None]

# Add-on -> its ServiceAccounts that take rights.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/workloads-add-ons-available-eks.html and the values
# of github.com/kubernetes-sigs/aws-efs-csi-driver (a4fc676), .../aws-fsx-csi-driver (5b22712) and
# github.com/awslabs/mountpoint-s3-csi-driver (57c6bed), read 2026-11-27
_ACCOUNTS: Final = {
    "coredns": (),
    "eks-node-monitoring-agent": (),
    "eks-pod-identity-agent": (),
    "kube-proxy": (),
    "vpc-cni": ("aws-node",),
    "aws-ebs-csi-driver": ("ebs-csi-controller-sa",),
    "aws-efs-csi-driver": ("efs-csi-controller-sa", "efs-csi-node-sa"),
    "aws-fsx-csi-driver": ("fsx-csi-controller-sa", "fsx-csi-node-sa"),
    "aws-mountpoint-s3-csi-driver": ("s3-csi-driver-sa",),
}
# Add-on -> key of its configuration -> whether it takes a value.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/cni-network-policy-configure.html;
# github.com/kubernetes-sigs/aws-ebs-csi-driver, charts/aws-ebs-csi-driver/values.schema.json at v1.64.0;
# github.com/aws/eks-node-monitoring-agent, charts/configuration.schema.json at 51af549, read 2026-11-27
_CONFIGURATION: Final[dict[str, dict[str, Callable[[object], bool]]]] = {
    "vpc-cni": {"enableNetworkPolicy": lambda value: value in ("true", "false")},
    "aws-ebs-csi-driver": {"defaultStorageClass.enabled": lambda value: isinstance(value, bool)},
    "eks-node-monitoring-agent": {
        "dcgmAgent.tolerations[0].operator": lambda value: value in ("Equal", "Exists")
    },
}


@alone(CLUSTER_TYPE)
def an_endpoint_answers_somewhere(inputs: Inputs) -> Iterator[Refusal]:
    """https://docs.aws.amazon.com/eks/latest/userguide/cluster-endpoint.html: private and public access
    cannot both be off; public is on and private off where nothing is said.
    """
    private = get(inputs, "vpcConfig.endpointPrivateAccess")
    if get(inputs, "vpcConfig.endpointPublicAccess") is False and not private:
        yield Refusal("vpcConfig.endpointPrivateAccess", "private and public access cannot both be disabled")


@alone(CLUSTER_TYPE)
def public_ranges_need_a_public_endpoint(inputs: Inputs) -> Iterator[Refusal]:
    """https://docs.aws.amazon.com/eks/latest/APIReference/API_VpcConfigRequest.html, publicAccessCidrs."""
    if get(inputs, "vpcConfig.endpointPublicAccess") is False and each(inputs, "vpcConfig.publicAccessCidrs"):
        yield Refusal(
            "vpcConfig.publicAccessCidrs", "mean nothing without a public endpoint, and are refused"
        )


@alone(CLUSTER_TYPE)
def secrets_alone_are_encrypted(inputs: Inputs) -> Iterator[Refusal]:
    """https://docs.aws.amazon.com/eks/latest/APIReference/API_EncryptionConfig.html: "the only supported
    value is secrets".
    """
    resources = each(inputs, "encryptionConfig.resources")
    if inputs.get("encryptionConfig") and resources != ["secrets"]:
        yield Refusal("encryptionConfig.resources", f"is [secrets], not {resources}")


AUTO = (
    "computeConfig.enabled",
    "kubernetesNetworkConfig.elasticLoadBalancing.enabled",
    "storageConfig.blockStorage.enabled",
)


@alone(CLUSTER_TYPE)
def auto_mode_is_whole(inputs: Inputs) -> Iterator[Refusal]:
    """https://docs.aws.amazon.com/eks/latest/userguide/automode-get-started-cli.html and the resource's page
    in the registry of Terraform: compute, load balancing and block storage are on or off together, and EKS's
    own copies of add-ons are off with them; built-in node pools need a node role, and it needs them.
    """
    on = {bool(get(inputs, path)) for path in AUTO}
    if len(on) > 1:
        yield Refusal("computeConfig.enabled", f"{', '.join(AUTO)} are all true or all false")
    if on == {True} and get(inputs, "bootstrapSelfManagedAddons") is not False:
        yield Refusal("bootstrapSelfManagedAddons", "is false with Auto Mode")
    if bool(each(inputs, "computeConfig.nodePools")) is not bool(get(inputs, "computeConfig.nodeRoleArn")):
        yield Refusal("computeConfig.nodeRoleArn", "goes with built-in node pools")


@among(CLUSTER_TYPE)
def auto_modes_role_tags_sessions(inputs: Inputs, find: Find) -> Iterator[Refusal]:
    """https://docs.aws.amazon.com/eks/latest/userguide/auto-cluster-iam-role.html: sts:AssumeRole and
    sts:TagSession.
    """
    role = find(ROLE_TYPE, inputs.get("roleArn"))
    if role is None or not get(inputs, "computeConfig.enabled"):
        return
    if not trusts(role, "eks.amazonaws.com", "sts:AssumeRole", "sts:TagSession"):
        yield Refusal("roleArn", "the role does not let eks.amazonaws.com sts:TagSession, as Auto Mode needs")


@among(CLUSTER_TYPE)
def control_planes_stand_in_two_zones(inputs: Inputs, find: Find) -> Iterator[Refusal]:
    """https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html: subnets in at least two zones."""
    zones = {
        (find(SUBNET_TYPE, subnet) or {}).get("availabilityZone")
        for subnet in each(inputs, "vpcConfig.subnetIds")
    }
    if len(zones - {None}) < 2:
        yield Refusal(
            "vpcConfig.subnetIds", f"lie in at least two availability zones, not in {sorted(map(str, zones))}"
        )


@among(CLUSTER_TYPE)
def the_cluster_role_trusts_eks(inputs: Inputs, find: Find) -> Iterator[Refusal]:
    """CreateCluster: "Role could not be assumed because the trusted entity is not correct"."""
    role = find(ROLE_TYPE, inputs.get("roleArn"))
    if role is not None and not trusts(role, "eks.amazonaws.com", "sts:AssumeRole"):
        yield Refusal("roleArn", "the role does not trust eks.amazonaws.com")


@among(ACCESS_ENTRY_TYPE)
def entries_need_a_mode_that_has_them(inputs: Inputs, find: Find) -> Iterator[Refusal]:
    """https://docs.aws.amazon.com/eks/latest/userguide/setting-up-access-entries.html: API or
    API_AND_CONFIG_MAP.
    """
    cluster = find(CLUSTER_TYPE, inputs.get("clusterName")) or {}
    if get(cluster, "accessConfig.authenticationMode") not in ("API", "API_AND_CONFIG_MAP"):
        yield Refusal(
            "clusterName", "the cluster's authentication mode must be one of API, API_AND_CONFIG_MAP"
        )


@alone(ACCESS_ENTRY_TYPE)
def groups_are_not_the_systems(inputs: Inputs) -> Iterator[Refusal]:
    """https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html: a group name may not
    begin with system:, eks:, aws:, amazon: or iam:, and only STANDARD entries have groups.
    """
    for index, group in enumerate(each(inputs, "kubernetesGroups")):
        if str(group).startswith(("system:", "eks:", "aws:", "amazon:", "iam:")):
            yield Refusal(f"kubernetesGroups[{index}]", f"{group!r} begins with a reserved prefix")
    if inputs.get("kubernetesGroups") and get(inputs, "type") not in (None, "STANDARD"):
        yield Refusal("kubernetesGroups", "are of STANDARD entries alone")


@alone(ACCESS_POLICY_TYPE)
def access_policies_are_ekss(inputs: Inputs) -> Iterator[Refusal]:
    """https://docs.aws.amazon.com/eks/latest/userguide/access-policy-permissions.html: ARNs of
    cluster-access-policy; scope namespace names some, scope cluster none.
    """
    arn, scope = get(inputs, "policyArn"), get(inputs, "accessScope.type")
    if isinstance(arn, str) and ":eks::aws:cluster-access-policy/AmazonEKS" not in arn:
        yield Refusal("policyArn", f"{arn!r} is no access policy of EKS (it is not an IAM policy)")
    names = each(inputs, "accessScope.namespaces")
    if (scope == "namespace") is not bool(names):
        yield Refusal("accessScope.namespaces", f"go with scope namespace, not with {scope!r}")


@among(ACCESS_POLICY_TYPE)
def policies_need_an_entry(inputs: Inputs, find: Find) -> Iterator[Refusal]:
    """AssociateAccessPolicy answers ResourceNotFoundException for a principal without an access entry."""
    entry = f"{inputs.get('clusterName')}:{inputs.get('principalArn')}"
    if find(ACCESS_ENTRY_TYPE, entry) is None:
        yield Refusal("principalArn", f"there is no access entry for {inputs.get('principalArn')}")


@alone(ADDON.token)
def configuration_is_of_the_add_on(inputs: Inputs) -> Iterator[Refusal]:
    """https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateAddon.html: configurationValues is
    checked against the add-on's JSON schema. Here it has what the add-ons' schemas say of the keys below.
    """
    given, name = get(inputs, "configurationValues"), str(inputs.get("addonName"))
    if not isinstance(given, str):
        return
    try:
        values = json.loads(given)
    except ValueError:
        yield Refusal("configurationValues", "is JSON here")
        return
    if not isinstance(values, dict):
        yield Refusal("configurationValues", "is an object")
        return
    for path, value in leaves(values):
        if path not in _CONFIGURATION.get(name, {}):
            yield Refusal("configurationValues", f"{name} has no {path}")
        elif not _CONFIGURATION[name][path](value):
            yield Refusal("configurationValues", f"{value!r} is no value of {path}")


@alone(ADDON.token)
def rights_are_of_the_add_on(inputs: Inputs) -> Iterator[Refusal]:
    """An association of an add-on is with one of its ServiceAccounts: DescribeAddonConfiguration names them
    in podIdentityConfiguration.
    """
    name = str(inputs.get("addonName"))
    if name not in _ACCOUNTS:
        yield Refusal("addonName", f"EKS has no add-on {name}")
    for association in each(inputs, "podIdentityAssociations"):
        account = association.get("serviceAccount")
        if account not in _ACCOUNTS.get(name, ()):
            yield Refusal("podIdentityAssociations", f"{name} has no ServiceAccount {account}")


@among(POD_IDENTITY_TYPE)
def pod_roles_trust_pod_identity(inputs: Inputs, find: Find) -> Iterator[Refusal]:
    """https://docs.aws.amazon.com/eks/latest/userguide/pod-id-role.html: the role trusts
    pods.eks.amazonaws.com with sts:AssumeRole and sts:TagSession.
    """
    role = find(ROLE_TYPE, inputs.get("roleArn"))
    if role is not None and not trusts(role, "pods.eks.amazonaws.com", "sts:AssumeRole", "sts:TagSession"):
        yield Refusal(
            "roleArn", "the role does not let pods.eks.amazonaws.com sts:AssumeRole and sts:TagSession"
        )
