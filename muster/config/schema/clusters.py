"""The schema of `muster:cluster`: one for each provider, chosen by `provider`."""

from typing import Final

from muster.config import bounds
from muster.config.schema.kinds import (
    Schema,
    by_name,
    choice,
    defined,
    each,
    either,
    flag,
    integer,
    key,
    mapping,
    text,
    texts,
    words,
)
from muster.model.clusters import (
    AccessPolicy,
    Autoscaler,
    Day,
    EksCluster,
    EksNetwork,
    EksStorage,
    GkeAddon,
    GkeCluster,
    GkeNetwork,
    GkeProvisioner,
    GpuDriver,
    MaintenanceWindow,
    NatGateways,
    NodeProvisioner,
    Provider,
    ReleaseChannel,
    StorageDriver,
    SystemPool,
    UpgradeScope,
)
from muster.model.clusters.eks import LOG_KINDS
from muster.model.clusters.maintenance import END_OF_SUPPORT
from muster.model.machines import machines_of
from muster.model.providers import NodeCloud

_GKE: Final = GkeCluster(name="", project="", region="")
_EKS: Final = EksCluster(name="", region="", zones=())
_PROTECT: Final = (
    "Whether the cluster, and pools that take from a reservation, are kept from being destroyed or replaced."
)


def cluster() -> Schema:
    """Whatever the provider: the rest depends on it."""
    return {
        "type": "object",
        "description": "The cluster: its provider, its name, and what the provider needs.",
        "examples": [
            {"provider": "gke", "name": "ml-prod", "region": "us-central1", "project": "my-project"}
        ],
        "properties": {"provider": key("Who runs the cluster.", choice(Provider))},
        "required": ["provider"],
        "allOf": [
            {
                "if": {"properties": {"provider": {"const": provider.value}}, "required": ["provider"]},
                "then": defined(_definition(provider)),
            }
            for provider in Provider
        ],
    }


def definitions() -> dict[str, Schema]:
    return {
        _definition(Provider.GKE): _gke(),
        _definition(Provider.EKS): _eks(),
        _definition(Provider.EXISTING): _existing(),
    }


def _definition(provider: Provider) -> str:
    return f"{provider}Cluster"


def _provider(provider: Provider) -> Schema:
    return key("Who runs the cluster.", {"const": provider.value})


def _gke() -> Schema:
    keys = mapping(
        {
            "provider": _provider(Provider.GKE),
            "name": key("The name of the cluster in Google Cloud.", text(), example="ml-prod"),
            "region": key(
                "The region of a regional cluster, such as us-central1.",
                text(),
                otherwise="required, unless `zone` is written",
                example="us-central1",
            ),
            "zone": key(
                "The zone of a zonal cluster, in place of `region`: it has one control plane, which is away "
                "while it is upgraded, and all nodes.",
                text(),
                otherwise="none, a regional cluster",
                example="us-central1-a",
            ),
            "project": key("The id of the Google Cloud project.", text(), example="my-project"),
            "zones": key(
                "Zones of the nodes.",
                words(),
                otherwise="GKE chooses them in the region",
                example=["us-central1-a", "us-central1-b"],
            ),
            "protect": key(_PROTECT, flag(), default=_GKE.protect),
            "releaseChannel": key(
                "Which versions GKE moves the cluster to; `none` is for clusters that have it already.",
                choice(ReleaseChannel),
                default=_GKE.release_channel.value,
            ),
            "maintenance": key(
                "When GKE may upgrade control plane and nodes by itself, and what it may not.",
                _maintenance(),
                otherwise="at any time",
                example={"days": ["sat", "sun"], "start": "02:00", "hours": 8},
            ),
            "version": key("The version of Kubernetes, in quotes.", text(), example="1.36"),
            "autoscaler": key(
                "What makes the nodes: node pools of Muster's, which alone can be queued; or GKE by itself, "
                "from ComputeClasses.",
                choice(GkeProvisioner),
                default=_GKE.autoscaler.value,
            ),
            "network": key("The address ranges of the network, or an existing network.", _gke_network()),
            "authorizedNetworks": key(
                "Name: addresses that can reach the control plane.",
                texts(),
                otherwise="none",
                example={"office": "198.51.100.0/24"},
            ),
            "privateEndpoint": key(
                "Whether the control plane has no public address.", flag(), default=_GKE.private_endpoint
            ),
            "dnsEndpoint": key(
                "Whether the control plane's DNS name answers from anywhere, to whom IAM lets in.",
                flag(),
                default=_GKE.dns_endpoint,
            ),
            "kmsKey": key(
                "Full name of the key that encrypts Secrets and the disks of nodes.",
                text(),
                otherwise="Google's own keys",
                example="projects/my-project/locations/us-central1/keyRings/ml/cryptoKeys/gke",
            ),
            "nodeServiceAccount": key(
                "Email of an existing service account for the nodes.",
                text(),
                otherwise="Muster makes one",
                example="nodes@my-project.iam.gserviceaccount.com",
            ),
            "gpuDriver": key(
                "Which GPU driver is installed: GKE's default or latest, or that of Google's installer.",
                choice(GpuDriver),
                default=_GKE.gpu_driver.value,
            ),
            "addons": key(
                "Which of GKE's drivers for volumes are on: buckets, Filestore, Managed Lustre.",
                each(choice(GkeAddon)),
                otherwise="as they are",
                example=[GkeAddon.GCS_FUSE.value],
            ),
            "imageStreaming": key(
                "Whether containers start before their image is there whole; a change makes all nodes anew.",
                flag(),
                otherwise="as it is",
                example=True,
            ),
            "systemPool": _system(Provider.GKE, _GKE.system_pool),
            "labels": key(
                "Labels of the cluster in Google Cloud.",
                texts(),
                otherwise="none",
                example={"cost-center": "ml"},
            ),
        },
        required=("provider", "name", "project"),
    )
    return {**keys, "if": {"not": {"required": ["zone"]}}, "then": {"required": ["region"]}}


def _maintenance() -> Schema:
    known = MaintenanceWindow()
    hours = integer(**bounds.MAINTENANCE_HOURS)
    return mapping(
        {
            "days": key(
                "The days on which a window begins.",
                each(choice(Day)),
                otherwise="every day",
                example=["sat", "sun"],
            ),
            "start": key("When it begins, as HH:MM in UTC, in quotes.", text(), default=known.start),
            "hours": key("How many hours it lasts.", hours, default=known.hours),
            "exclusions": key(
                "Name: upgrades that GKE does not make by itself.",
                by_name(_exclusion()),
                otherwise="none",
                example={"gangs": {"scope": UpgradeScope.NO_MINOR_OR_NODE_UPGRADES.value}},
            ),
        }
    )


def _exclusion() -> Schema:
    return mapping(
        {
            "scope": key(
                "Which upgrades: all; of the minor version; of the minor version and of all nodes.",
                choice(UpgradeScope),
                example=UpgradeScope.NO_MINOR_OR_NODE_UPGRADES.value,
            ),
            "from": key(
                "The first day, in UTC and in quotes; required with a day in `until`.",
                text(),
                example="2026-12-14",
            ),
            "until": key(
                "The day on which it ends, in UTC and in quotes; or endOfSupport, of the minor version.",
                text(),
                default=END_OF_SUPPORT,
            ),
        },
        required=("scope",),
    )


def _gke_network() -> Schema:
    known = GkeNetwork()
    names = ("network", "subnetwork", "pods", "services")
    existing = mapping(
        {
            "network": key(
                "The VPC; in a shared VPC projects/PROJECT/global/networks/NAME.", text(), example="ml"
            ),
            "subnetwork": key("The subnetwork of the nodes.", text(), example="nodes"),
            "pods": key("The secondary range of the pods.", text(), example="pods"),
            "services": key("The secondary range of the services.", text(), example="services"),
        },
        required=names,
    )
    return mapping(
        {
            "nodes": key("Addresses of the nodes.", text(), default=known.nodes),
            "pods": key("Addresses of the pods; each node takes a /24.", text(), default=known.pods),
            "services": key("Addresses of the services.", text(), default=known.services),
            "controlPlane": key("A separate /28 for the control plane.", text(), default=known.control_plane),
            "existing": key(
                "An existing VPC; the other ranges then have no effect.",
                existing,
                otherwise="Muster makes one",
            ),
        }
    )


def _eks() -> Schema:
    return mapping(
        {
            "provider": _provider(Provider.EKS),
            "name": key("The name of the cluster in AWS.", text(), example="ml-prod"),
            "region": key("The region, such as us-east-1.", text(), example="us-east-1"),
            "zones": key(
                "At least two zones; left out with network.existing.",
                words(),
                example=["us-east-1a", "us-east-1b"],
            ),
            "protect": key(_PROTECT, flag(), default=_EKS.protect),
            "version": key(
                "The version of Kubernetes, in quotes.", text(), default=_EKS.version, example="1.36"
            ),
            "autoscaler": key(
                "What makes the nodes: cluster-autoscaler, which alone has queued pools; Karpenter; or EKS "
                "Auto Mode.",
                choice(NodeProvisioner),
                default=_EKS.autoscaler.value,
            ),
            "imageRelease": key(
                "The release of Amazon Linux 2023 that Karpenter launches.",
                text(),
                default=_EKS.image_release,
            ),
            "network": key("The address range of the network, or an existing network.", _eks_network()),
            "storage": key("The default StorageClass and further CSI drivers.", _eks_storage()),
            "publicCidrs": key(
                "Addresses that can reach the control plane over the internet.",
                words(),
                otherwise="none, the VPC alone reaches it",
                example=["198.51.100.0/24"],
            ),
            "access": key(
                "Name: the ARN of an administrator of the cluster, or a principal with its rights.",
                by_name(either(text(), _principal())),
                otherwise="only the principal that creates the cluster",
                example={"platform": "arn:aws:iam::123456789012:role/platform"},
            ),
            "kmsKey": key(
                "ARN of the key that encrypts Secrets.",
                text(),
                otherwise="Muster makes one",
                example="arn:aws:kms:us-east-1:123456789012:key/00000000-0000-0000-0000-000000000000",
            ),
            "logs": key(
                "Which logs of the control plane go to CloudWatch.",
                each({"type": "string", "enum": list(LOG_KINDS)}),
                default=list(_EKS.logs),
            ),
            "logDays": key(
                "How many days CloudWatch keeps them.", integer(**bounds.LOG_DAYS), default=_EKS.log_days
            ),
            "systemPool": _system(Provider.EKS, _EKS.system_pool),
            "tags": key(
                "Tags of all resources in AWS.",
                texts(),
                otherwise="none",
                example={"cost-center": "ml"},
            ),
        },
        required=("provider", "name", "region"),
    )


def _eks_network() -> Schema:
    known = EksNetwork()
    existing = mapping(
        {
            "vpc": key("The id of the VPC.", text(), example="vpc-0a1b2c3d4e5f67890"),
            "privateSubnets": key(
                "Zone: id of its private subnet; the zones become the cluster's.",
                {"type": "object", "minProperties": 1, "additionalProperties": text()},
                example={"us-east-1a": "subnet-0a1b2c3d4e5f67890"},
            ),
        },
        required=("vpc", "privateSubnets"),
    )
    return mapping(
        {
            "cidr": key("Addresses of the VPC; every pod takes one.", text(), default=known.cidr),
            "natGateways": key(
                "One NAT gateway for all zones, or one per zone.",
                choice(NatGateways),
                default=known.nat_gateways.value,
            ),
            "existing": key(
                "An existing VPC; the other keys then have no effect.", existing, otherwise="Muster makes one"
            ),
        }
    )


def _eks_storage() -> Schema:
    known = EksStorage()
    return mapping(
        {
            "defaultClass": key(
                "Whether a volume that names no StorageClass becomes a disk of EBS, which one node mounts.",
                flag(),
                default=known.default_class,
            ),
            "drivers": key(
                "CSI drivers of stores that several nodes mount at once.",
                each(choice(StorageDriver)),
                otherwise="none",
                example=[StorageDriver.EFS.value],
            ),
        }
    )


def _principal() -> Schema:
    return mapping(
        {
            "principal": key(
                "ARN of an IAM role or user.", text(), example="arn:aws:iam::123456789012:role/viewer"
            ),
            "policy": key(
                "Its access policy of EKS, for the whole cluster.", choice(AccessPolicy), otherwise="none"
            ),
            "groups": key(
                "Groups that the cluster's own RBAC knows.", words(), otherwise="none", example=["viewers"]
            ),
        },
        required=("principal",),
    )


def _existing() -> Schema:
    return mapping(
        {
            "provider": _provider(Provider.EXISTING),
            "name": key("A name for the cluster.", text(), example="lab"),
            "context": key(
                "The context in the kubeconfig; required without `kubeconfig`.", text(), example="lab"
            ),
            "kubeconfig": key(
                "The kubeconfig file.", text(), otherwise="kubectl's own", example="~/.kube/lab"
            ),
            "cloud": key(
                "The cloud of the nodes, which decides on their drivers; `existing` names none.",
                choice(NodeCloud),
                default=NodeCloud.EXISTING.value,
                example=NodeCloud.AKS.value,
            ),
            "autoscaler": key(
                "Who makes nodes: an autoscaler that answers ProvisioningRequests, Karpenter, or none.",
                choice(Autoscaler),
                default=Autoscaler.PROVISIONING_REQUESTS.value,
            ),
        },
        required=("provider", "name"),
    )


def _system(provider: Provider, known: SystemPool) -> Schema:
    pool = mapping(
        {
            "machine": key(
                "The machine type.",
                choice(sorted(machines_of(provider))),
                default=known.machine.name,
                example=known.machine.name,
            ),
            "minNodes": key(
                "Minimum number of nodes, over all zones; 0 only on GKE.",
                integer(**bounds.FEWEST_SYSTEM_NODES),
                default=known.min_nodes,
            ),
            "maxNodes": key(
                "Maximum number of nodes, over all zones.",
                integer(**bounds.MOST_SYSTEM_NODES),
                default=known.max_nodes,
            ),
        }
    )
    return key("The nodes of Kueue, KubeRay and the other controllers.", pool)
