"""Inputs that the clouds would take: what the tests of the rules begin with."""

import copy
import json
from typing import Any, Final

from tests.clouds.standin.tables import (
    aws_account,
    compute,
    ec2,
    eks,
    events,
    gke,
    google_project,
    launch_templates,
)
from tests.clouds.standin.values import Inputs


def trust(service: str, *actions: str) -> str:
    """A trust policy."""
    statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": list(actions)}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def permission(*actions: str) -> str:
    """A policy."""
    return json.dumps(
        {
            "Version": "2012-10-17",
            "Statement": [{"Effect": "Allow", "Action": list(actions), "Resource": "*"}],
        }
    )


_ROLE = "arn:aws:iam::123456789012:role/"

LEGAL: Final[dict[str, dict[str, Any]]] = {
    gke.CLUSTER_TYPE: {
        "name": "prod",
        "project": "acme",
        "location": "us-central1",
        "initialNodeCount": 1,
        "removeDefaultNodePool": True,
        "networkingMode": "VPC_NATIVE",
        "datapathProvider": "ADVANCED_DATAPATH",
        "ipAllocationPolicy": {"clusterSecondaryRangeName": "pods", "servicesSecondaryRangeName": "services"},
        "privateClusterConfig": {
            "enablePrivateNodes": True,
            "enablePrivateEndpoint": False,
            "masterIpv4CidrBlock": "172.16.0.0/28",
        },
        "masterAuthorizedNetworksConfig": {"cidrBlocks": [{"cidrBlock": "192.0.2.0/24", "displayName": "x"}]},
        "workloadIdentityConfig": {"workloadPool": "acme.svc.id.goog"},
        "releaseChannel": {"channel": "REGULAR"},
        "maintenancePolicy": {
            "recurringWindow": {
                "startTime": "2026-01-10T02:00:00Z",
                "endTime": "2026-01-10T10:00:00Z",
                "recurrence": "FREQ=WEEKLY;BYDAY=SA,SU",
            },
            "maintenanceExclusions": [
                {
                    "exclusionName": "gangs",
                    "startTime": "2026-01-05T00:00:00Z",
                    "exclusionOptions": {
                        "scope": "NO_MINOR_OR_NODE_UPGRADES",
                        "endTimeBehavior": "UNTIL_END_OF_SUPPORT",
                    },
                }
            ],
        },
        "databaseEncryption": {
            "state": "ENCRYPTED",
            "keyName": "projects/p/locations/l/keyRings/r/cryptoKeys/k",
        },
    },
    gke.POOL_TYPE: {
        "name": "h100",
        "project": "acme",
        "cluster": "prod",
        "location": "us-central1",
        "nodeLocations": ["us-central1-a"],
        "queuedProvisioning": {"enabled": True},
        "autoscaling": {"totalMinNodeCount": 0, "totalMaxNodeCount": 8, "locationPolicy": "ANY"},
        "management": {"autoRepair": False, "autoUpgrade": True},
        "nodeConfig": {
            "machineType": "a3-highgpu-8g",
            "flexStart": True,
            "maxRunDuration": "604800s",
            "reservationAffinity": {"consumeReservationType": "NO_RESERVATION"},
            "guestAccelerators": [
                {
                    "type": "nvidia-h100-80gb",
                    "count": 8,
                    "gpuDriverInstallationConfig": {"gpuDriverVersion": "DEFAULT"},
                }
            ],
            "labels": {"muster.dev/pool": "h100", "cloud.google.com/gke-queued": "true"},
            "taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}],
        },
    },
    compute.SUBNETWORK_TYPE: {
        "name": "nodes",
        "network": "prod",
        "ipCidrRange": "10.0.0.0/20",
        "privateIpGoogleAccess": True,
        "secondaryIpRanges": [
            {"rangeName": "pods", "ipCidrRange": "10.4.0.0/14"},
            {"rangeName": "services", "ipCidrRange": "10.8.0.0/20"},
        ],
    },
    compute.NAT.token: {
        "name": "out",
        "router": "out",
        "natIpAllocateOption": "AUTO_ONLY",
        "sourceSubnetworkIpRangesToNat": "ALL_SUBNETWORKS_ALL_IP_RANGES",
    },
    google_project.ACCOUNT_TYPE: {"accountId": "prod-nodes"},
    google_project.PROJECT_GRANT.token: {
        "project": "acme",
        "role": "roles/container.defaultNodeServiceAccount",
        "member": "serviceAccount:prod-nodes@acme.iam.gserviceaccount.com",
    },
    google_project.ACCOUNT_GRANT.token: {
        "serviceAccountId": "projects/acme/serviceAccounts/team@acme.iam.gserviceaccount.com",
        "role": "roles/iam.workloadIdentityUser",
        "member": "serviceAccount:acme.svc.id.goog[team/default]",
    },
    google_project.BUCKET_GRANT.token: {
        "bucket": "datasets",
        "role": "roles/storage.objectViewer",
        "member": "serviceAccount:team@acme.iam.gserviceaccount.com",
    },
    eks.CLUSTER_TYPE: {
        "name": "prod",
        "roleArn": f"{_ROLE}prod",
        "version": "1.34",
        "accessConfig": {"authenticationMode": "API"},
        "vpcConfig": {
            "subnetIds": ["subnet-a", "subnet-b"],
            "endpointPrivateAccess": True,
            "endpointPublicAccess": True,
            "publicAccessCidrs": ["192.0.2.0/24"],
        },
        "enabledClusterLogTypes": ["api", "audit"],
        "encryptionConfig": {"provider": {"keyArn": "arn:aws:kms:::key/k"}, "resources": ["secrets"]},
    },
    eks.NODE_GROUP_TYPE: {
        "clusterName": "prod",
        "nodeGroupName": "block",
        "nodeRoleArn": f"{_ROLE}nodes",
        "subnetIds": ["subnet-a"],
        "version": "1.34",
        "capacityType": "CAPACITY_BLOCK",
        "amiType": "AL2023_x86_64_NVIDIA",
        "scalingConfig": {"minSize": 0, "desiredSize": 0, "maxSize": 4},
        "launchTemplate": {"id": "lt-block", "version": "1"},
        "updateConfig": {"maxUnavailable": 1},
        "taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}],
    },
    launch_templates.LAUNCH_TEMPLATE.token: {
        "name": "block",
        "instanceType": "p5.48xlarge",
        "instanceMarketOptions": {"marketType": "capacity-block"},
        "capacityReservationSpecification": {
            "capacityReservationTarget": {"capacityReservationId": "cr-0123456789abcdef0"}
        },
        "metadataOptions": {
            "httpTokens": "required",
            "httpPutResponseHopLimit": 1,
            "httpEndpoint": "enabled",
        },
        "networkInterfaces": [
            {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "efa"},
            {"networkCardIndex": 1, "deviceIndex": 1, "interfaceType": "efa-only"},
        ],
        "userData": "TUlNRQ==",
    },
    eks.ACCESS_ENTRY_TYPE: {
        "clusterName": "prod",
        "principalArn": f"{_ROLE}people",
        "kubernetesGroups": ["platform"],
        "type": "STANDARD",
    },
    eks.ACCESS_POLICY_TYPE: {
        "clusterName": "prod",
        "principalArn": f"{_ROLE}people",
        "policyArn": "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy",
        "accessScope": {"type": "cluster"},
    },
    eks.ADDON.token: {
        "clusterName": "prod",
        "addonName": "vpc-cni",
        "configurationValues": '{"enableNetworkPolicy": "true"}',
    },
    eks.POD_IDENTITY_TYPE: {
        "clusterName": "prod",
        "namespace": "kube-system",
        "serviceAccount": "cluster-autoscaler",
        "roleArn": f"{_ROLE}autoscaler",
    },
    events.QUEUE_TYPE: {
        "name": "prod-karpenter",
        "messageRetentionSeconds": 300,
        "sqsManagedSseEnabled": True,
    },
    events.QUEUE_POLICY_TYPE: {
        "queueUrl": "https://sqs.us-east-1.amazonaws.com/123456789012/prod-karpenter",
        "policy": trust("events.amazonaws.com", "sqs:SendMessage"),
    },
    events.RULE_TYPE: {"name": "spot", "eventPattern": '{"source": ["aws.ec2"]}'},
    ec2.VPC_TYPE: {"cidrBlock": "10.0.0.0/16", "enableDnsHostnames": True, "enableDnsSupport": True},
    eks.SUBNET_TYPE: {"vpcId": "vpc-1", "cidrBlock": "10.0.0.0/20", "availabilityZone": "us-east-1a"},
    ec2.NAT_TYPE: {"subnetId": "subnet-a", "allocationId": "eipalloc-1"},
    eks.ROLE_TYPE: {"name": "prod", "assumeRolePolicy": trust("eks.amazonaws.com", "sts:AssumeRole")},
    aws_account.POLICY_TYPE: {"name": "scale", "policy": permission("autoscaling:Describe*")},
    aws_account.ROLE_POLICY.token: {
        "role": "prod",
        "policy": permission("autoscaling:SetDesiredCapacity", "ec2:DescribeInstanceTypes"),
    },
}

# What stands where the rules between resources look.
_TRUSTED: Final = {
    "prod": ("eks.amazonaws.com", "sts:AssumeRole"),
    "nodes": ("ec2.amazonaws.com", "sts:AssumeRole"),
    "autoscaler": ("pods.eks.amazonaws.com", "sts:AssumeRole", "sts:TagSession"),
}
STANDING: Final[dict[tuple[str, str], dict[str, Any]]] = {
    (gke.CLUSTER_TYPE, "prod"): LEGAL[gke.CLUSTER_TYPE],
    (eks.CLUSTER_TYPE, "prod"): LEGAL[eks.CLUSTER_TYPE],
    (eks.TEMPLATE_TYPE, "lt-block"): LEGAL[launch_templates.LAUNCH_TEMPLATE.token],
    (eks.SUBNET_TYPE, "subnet-a"): {"availabilityZone": "us-east-1a"},
    (eks.SUBNET_TYPE, "subnet-b"): {"availabilityZone": "us-east-1b"},
    (eks.ACCESS_ENTRY_TYPE, f"prod:{_ROLE}people"): LEGAL[eks.ACCESS_ENTRY_TYPE],
    (ec2.VPC_TYPE, "vpc-1"): LEGAL[ec2.VPC_TYPE],
    **{
        (eks.ROLE_TYPE, f"{_ROLE}{name}"): {"assumeRolePolicy": trust(*trusted)}
        for name, trusted in _TRUSTED.items()
    },
}


def edited(inputs: Inputs, edits: Inputs) -> dict[str, Any]:
    """A copy with other values at dotted paths; numbers step into lists, None takes away."""
    copied: dict[str, Any] = copy.deepcopy(dict(inputs))
    for path, value in edits.items():
        *steps, last = path.split(".")
        here: Any = copied
        for step in steps:
            here = here[int(step)] if step.isdigit() else here.setdefault(step, {})
        if value is None:
            here.pop(last, None)
        else:
            here[int(last) if last.isdigit() else last] = value
    return copied
