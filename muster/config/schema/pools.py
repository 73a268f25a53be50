"""The schema of `muster:pools`."""

from typing import Final

from muster.config import bounds
from muster.config.schema.kinds import (
    Schema,
    by_name,
    choice,
    duration,
    each,
    either,
    flag,
    integer,
    key,
    mapping,
    quantity,
    text,
    texts,
    words,
)
from muster.config.schema.writer import schema
from muster.model.accelerators import ACCELERATORS, SHORT_NAMES
from muster.model.capacity import Capacity, Gangs
from muster.model.kueue import PoolOptions
from muster.model.machines import AMD64, ARM64, MACHINES, MOST_GPUS
from muster.model.nodes import BOOT_DISK_GIB, Image, ImagePull, LocalDisks, NetworkProfile, Placement
from muster.model.sharing import MIG_PROFILES, Sharing

_PROFILES: Final = sorted({profile for profiles in MIG_PROFILES.values() for profile in profiles})
_TOPOLOGIES: Final = sorted({each for machine in MACHINES.values() for each in machine.topologies})
_PARAMETER: Final[Schema] = {"type": ["string", "integer"], "maxLength": 255}


def definitions() -> dict[str, Schema]:
    return {"pool": _pool()}


def _pool() -> Schema:
    keys = mapping(
        {
            "machine": key(
                "The machine type of all nodes: one of the table, or another one with `node`.",
                either(choice(sorted(MACHINES)), text()),
                otherwise="required, unless an existing cluster has `node`",
                example="g2-standard-8",
            ),
            "node": key(
                "What one node has: in place of `machine` in an existing cluster, beside one that no table "
                "has on GKE and EKS.",
                _node(),
                example={"cpu": 96, "memory": "1Ti", "gpus": 8, "accelerator": "nvidia-h100-80gb"},
            ),
            "accelerator": key(
                "The GPU or TPU of the machine.",
                choice((*ACCELERATORS, *SHORT_NAMES)),
                otherwise="the one that the machine carries",
                example="nvidia-l4",
            ),
            "gpusPerNode": key(
                "GPUs of one node, or chips of a TPU.",
                integer(**bounds.GPUS_PER_NODE),
                otherwise="those of the machine",
                example=1,
            ),
            "topology": key(
                "How the chips of a TPU slice are connected. A slice of several nodes is the whole pool.",
                choice(_TOPOLOGIES),
                otherwise="that of one node",
                example="4x4",
            ),
            "capacity": key(
                "How nodes are bought: queued for all nodes of a gang at once, the others as pods request. "
                "A list is tried first to last, by ComputeClasses and Karpenter.",
                either(choice(Capacity), each(choice(Capacity), least=1)),
                default=Capacity.ON_DEMAND.value,
                example=Capacity.QUEUED.value,
            ),
            "preference": key(
                "Work goes first to the pool with the higher preference, after CPU pools.",
                integer(**bounds.PREFERENCE),
                otherwise="0; of equal pools the most common accelerator first, then reservation and "
                "capacity-block, queued, on-demand, spot, then the order of the file",
                example=1,
            ),
            "maxNodes": key(
                "Maximum number of nodes, over all zones. On EKS each zone may grow to it, and quota "
                "bounds their sum.",
                integer(**bounds.POOL_NODES),
                example=8,
            ),
            "minNodes": key(
                "Nodes that are always there, over all zones.",
                integer(**bounds.PERMANENT_NODES),
                default=0,
                example=1,
            ),
            "gangs": key(
                "How a gang gets nodes of a pool that is not queued: all at once by placeholders, or not.",
                choice(Gangs),
                otherwise="placeholders where Karpenter makes the nodes, else none",
                example=Gangs.PLACEHOLDERS.value,
            ),
            "parameters": key(
                "Parameters of every ProvisioningRequest of the pool, such as maxRunDurationSeconds.",
                {"type": ["object", "null"], "additionalProperties": _PARAMETER},
                otherwise="none",
                example={"maxRunDurationSeconds": "86400"},
            ),
            "provisioningClass": key(
                "The class of the pool's ProvisioningRequests.",
                text(),
                otherwise="that of the provider, for a queued pool",
                example="queued-provisioning.gke.io",
            ),
            "reservation": key(
                "What a reserved pool takes from: a name, id or ARN, or name and project.",
                either(text(), _reservation()),
                example="h100-2026",
            ),
            "zones": key(
                "Zones of the nodes.",
                words(),
                otherwise="those of the cluster; on GKE those that sell the machine",
                example=["us-central1-a"],
            ),
            "maxRunDuration": key(
                "After this time a node is deleted, even if it runs work.",
                duration(),
                otherwise="never; in a queued pool of GKE seven days",
                example="24h",
            ),
            "image": key(
                "The operating system of the nodes.", choice(Image), otherwise="that of the provider"
            ),
            "bootDiskGiB": key(
                "Size of the boot disk in GiB.",
                integer(**bounds.BOOT_DISK_GIB),
                default=BOOT_DISK_GIB,
                example=500,
            ),
            "localDisks": key(
                "Whether the machine's local disks hold images, logs and files of containers.",
                choice(LocalDisks),
                otherwise="ephemeral where the machine has such disks",
                example=LocalDisks.EPHEMERAL.value,
            ),
            "imagePull": key(
                "Whether a node pulls the parts of an image in parallel, by SOCI (EKS).",
                choice(ImagePull),
                default=ImagePull.STANDARD.value,
            ),
            "placement": key(
                "Whether nodes are close together in one zone, or the existing placement group (EKS).",
                either(choice(Placement), _placement()),
                default=Placement.ANY.value,
            ),
            "efa": key(
                "Whether the machine's EFA interfaces are attached (EKS).",
                flag(),
                otherwise="true on machines that are made for it",
            ),
            "networks": key(
                "Further networks of the nodes, in the order of their cards (GKE).",
                each(_network()),
                otherwise="none",
                example=[{"network": "gpu-0", "subnetwork": "gpu-0"}],
            ),
            "networkProfile": key(
                "Whether GKE makes the networks of the machine's further cards, which pods then claim.",
                choice(NetworkProfile),
                otherwise="none",
            ),
            "labels": key("Labels of the nodes.", texts(), otherwise="none", example={"team": "vision"}),
            "sharing": key("How pods share one GPU.", choice(Sharing), default=Sharing.NONE.value),
            "shares": key("How many pods one GPU serves.", integer(least=1), default=1, example=4),
            "migProfile": key(
                "The MIG profile that divides the GPU, with `sharing: mig`.", choice(_PROFILES)
            ),
            "resources": key(
                "What one node has besides CPU, memory and GPUs; a team's quota has its part of it.",
                by_name(quantity()),
                otherwise="none",
                example={"rdma/ib": 8},
            ),
            "kueue": key("The pool's ResourceFlavor in Kueue's own terms.", schema(PoolOptions)),
        },
        required=("maxNodes",),
    )
    alone = {"required": ["node"], "not": {"required": ["machine"]}}
    return {**keys, "oneOf": [{"required": ["machine"]}, alone]}


def _node() -> Schema:
    return mapping(
        {
            "cpu": key(
                "The CPUs that pods can request on one node; on GKE and EKS the machine's vCPUs.",
                quantity(),
                example=96,
            ),
            "memory": key(
                "The memory that pods can request on one node; on GKE and EKS the machine's memory.",
                quantity(),
                example="1Ti",
            ),
            "gpus": key(
                "The GPUs of one node, or its Neuron devices.",
                integer(most=MOST_GPUS),
                default=0,
                example=8,
            ),
            "accelerator": key(
                "The GPU: one that Muster knows, or nvidia-NAME or amd-NAME with `gpuMemory`.",
                text(),
                otherwise="no GPU",
                example="nvidia-h100-80gb",
            ),
            "gpuMemory": key(
                "The memory of one GPU.",
                quantity(),
                otherwise="that of the accelerator",
                example="80Gi",
            ),
            "localDisks": key(
                "The machine's local disks (GKE, EKS); on EKS 1 for any number.",
                integer(most=64),
                default=0,
                example=8,
            ),
            "efa": key("The machine's EFA interfaces (EKS).", integer(most=64), default=0, example=8),
            "architecture": key(
                "The architecture of the machine's CPU (GKE, EKS).",
                choice((AMD64, ARM64)),
                default=AMD64,
                example=ARM64,
            ),
            "labels": key(
                "Labels that the nodes have already, besides muster.dev/pool; the pool's ResourceFlavor "
                "selects them.",
                texts(),
                otherwise="none",
                example={"example.com/fabric": "infiniband"},
            ),
        },
        required=("cpu", "memory"),
    )


def _reservation() -> Schema:
    return mapping(
        {
            "name": key("The name of the reservation.", text(), example="h100-2026"),
            "project": key(
                "The project that shares it.",
                text(),
                otherwise="that of the cluster",
                example="shared-capacity",
            ),
        },
        required=("name",),
    )


def _placement() -> Schema:
    group = key("The name of a cluster placement group of EC2.", text(), example="h100-2026")
    return mapping({"group": group}, required=("group",))


def _network() -> Schema:
    return mapping(
        {
            "network": key("An existing VPC.", text(), example="gpu-0"),
            "subnetwork": key("Its subnetwork.", text(), example="gpu-0"),
        },
        required=("network", "subnetwork"),
    )
