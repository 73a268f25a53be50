"""Pools of EKS as objects of Karpenter, and of EKS Auto Mode, which has the same NodePools and a smaller
class.

Pure: what exists in AWS alone (ids of subnets and security groups, the name of a role) is handed in. Fields:
https://karpenter.sh/docs/concepts/nodepools/ and .../nodeclasses/, the CRDs of Karpenter 1.14.1, and
https://docs.aws.amazon.com/eks/latest/userguide/create-node-class.html
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from muster.model import names
from muster.model.capacity import Capacity
from muster.model.clusters import EksCluster
from muster.model.node_labels import KARPENTER_CAPACITY, KARPENTER_CAPACITY_LABEL, node_labels
from muster.model.nodes import LocalDisks, Placement
from muster.model.pools import Pool
from muster.model.quantities import Millicores, format_cpu
from muster.render.kueue.flavors import device_taint
from muster.render.manifest import Manifest, manifest
from muster.render.user_data import user_data

_NODE_POOL: Final = "karpenter.sh/v1"
_CLASSES: Final = {False: ("karpenter.k8s.aws", "EC2NodeClass"), True: ("eks.amazonaws.com", "NodeClass")}
# https://karpenter.sh/docs/tasks/odcrs/. Auto Mode's page on reservations names no such label, and the class
# of a pool selects one reservation alone.
_RESERVATION_TYPE: Final = "karpenter.k8s.aws/capacity-reservation-type"
# Nothing that runs is moved to save money. Between its placeholders and its pods a gang's node is empty for
# a moment (docs/decisions/023-gangs-by-placeholders.md).
_EMPTY_AFTER: Final = "1m"
_SYSTEM_GIB: Final = 100
_NETWORK_POLICIES: Final = "amazon-vpc-cni"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a class refers to in AWS. `subnets`: zone -> id. `shared`: the cluster's own security group;
    `fabric`: that of EFA. `placement`: pool -> name of its placement group.
    """

    role: str
    subnets: Mapping[str, str]
    shared: str
    fabric: str = ""
    placement: Mapping[str, str]


def objects(pools: Sequence[Pool], cluster: EksCluster, found: Found) -> list[Manifest]:
    """Classes before the NodePools that refer to them; what is deleted in reverse ends nodes first."""
    if not cluster.is_auto:
        classes = [ec2_node_class(pool, cluster, found) for pool in pools]
        return [*classes, *(node_pool(pool, cluster) for pool in pools)]
    return [
        network_policies(),
        *([default_storage_class()] if cluster.storage.default_class else []),
        _auto_class(names.SYSTEM_POOL, cluster, found, zones=cluster.zones, gib=_SYSTEM_GIB),
        *(auto_node_class(pool, cluster, found) for pool in pools),
        system_node_pool(cluster),
        *(node_pool(pool, cluster) for pool in pools),
    ]


def node_pool(pool: Pool, cluster: EksCluster) -> Manifest:
    """One pool. Karpenter counts what all zones hold together, so `limits` is the pool's maxNodes."""
    requirements = [
        _in(names.ARCHITECTURE_LABEL, pool.machine.architecture),
        _in("kubernetes.io/os", "linux"),
        _in("node.kubernetes.io/instance-type", pool.machine.name),
        _in(names.ZONE_LABEL, *(pool.zones or cluster.zones)),
        _in(
            KARPENTER_CAPACITY_LABEL, *(KARPENTER_CAPACITY[each] for each in (pool.capacity, *pool.fallback))
        ),
    ]
    # Only reserved nodes have the label, so it would rule out all others.
    if pool.capacity.is_reserved and not pool.fallback and not cluster.is_auto:
        kind = "capacity-block" if pool.capacity is Capacity.CAPACITY_BLOCK else "default"
        requirements.append(_in(_RESERVATION_TYPE, kind))
    return _node_pool(
        pool.name,
        cluster,
        labels=node_labels(pool, cluster),
        requirements=requirements,
        taints=[device_taint(pool)] if pool.is_gpu else [],
        limits=_limits(pool),
        # An expired node takes no further pods, which would split a gang that grows or replaces a pod.
        expire_after="Never" if pool.is_gpu else "720h",
    )


def system_node_pool(cluster: EksCluster) -> Manifest:
    """Kueue, KubeRay and ours, where Auto Mode makes all nodes. Pods there may be moved to fewer nodes."""
    pool = cluster.system_pool
    return _node_pool(
        names.SYSTEM_POOL,
        cluster,
        labels={names.POOL_LABEL: names.SYSTEM_POOL},
        requirements=[
            _in(names.ARCHITECTURE_LABEL, pool.machine.architecture),
            _in("kubernetes.io/os", "linux"),
            _in("node.kubernetes.io/instance-type", pool.machine.name),
            _in(names.ZONE_LABEL, *cluster.zones),
            _in("karpenter.sh/capacity-type", "on-demand"),
        ],
        taints=[],
        limits={"cpu": format_cpu(Millicores(pool.machine.cpu * pool.max_nodes))},
        expire_after="336h",
    )


def _node_pool(
    name: str,
    cluster: EksCluster,
    *,
    labels: Mapping[str, str],
    requirements: list[dict[str, Any]],
    taints: list[dict[str, str]],
    limits: Mapping[str, str],
    expire_after: str,
) -> Manifest:
    """Auto Mode keeps no node longer than 21 days, so its own lifetime stands there.
    https://docs.aws.amazon.com/eks/latest/userguide/automode.html
    """
    group, kind = _CLASSES[cluster.is_auto]
    spec: dict[str, Any] = {
        "nodeClassRef": {"group": group, "kind": kind, "name": name},
        "requirements": requirements,
    }
    if taints:
        spec["taints"] = taints
    if not cluster.is_auto:
        spec["expireAfter"] = expire_after
    return manifest(
        _NODE_POOL,
        "NodePool",
        name,
        spec={
            "template": {"metadata": {"labels": dict(sorted(labels.items()))}, "spec": spec},
            "limits": dict(limits),
            "disruption": {
                "consolidationPolicy": "WhenEmpty",
                "consolidateAfter": _EMPTY_AFTER,
                # A gang that is gone gives all its nodes back at once; changes of the class go node by node,
                # and wait for pods with `do-not-disrupt`.
                "budgets": [
                    {"nodes": "100%", "reasons": ["Empty"]},
                    {"nodes": "1", "reasons": ["Drifted"]},
                ],
            },
        },
    )


def ec2_node_class(pool: Pool, cluster: EksCluster, found: Found) -> Manifest:
    """How Karpenter launches a machine of the pool: as the launch template of its node group would."""
    groups = [found.shared, *([found.fabric] if pool.efa else [])]
    spec: dict[str, Any] = {
        "role": found.role,
        # Chooses the NVIDIA variant for machines with GPUs.
        "amiSelectorTerms": [{"alias": f"al2023@{cluster.image_release}"}],
        "subnetSelectorTerms": _subnets(pool.zones or cluster.zones, found),
        "securityGroupSelectorTerms": [{"id": group} for group in groups],
        # IMDSv2 within one hop: a pod is a hop further away and never gets the node's credentials.
        "metadataOptions": {
            "httpEndpoint": "enabled",
            "httpProtocolIPv6": "disabled",
            "httpPutResponseHopLimit": 1,
            "httpTokens": "required",
        },
        "blockDeviceMappings": [
            {
                "deviceName": "/dev/xvda",
                "rootVolume": True,
                "ebs": {
                    "volumeSize": f"{pool.boot_disk_gib}Gi",
                    "volumeType": "gp3",
                    "encrypted": True,
                    "deleteOnTermination": True,
                },
            }
        ],
        "tags": {**cluster.tags, "Name": f"{cluster.name}-{pool.name}"},
    }
    if pool.local_disks is LocalDisks.EPHEMERAL:
        spec["instanceStorePolicy"] = "RAID0"
    if data := user_data(pool, by_karpenter=True):
        spec["userData"] = data
    if pool.efa:
        spec["networkInterfaces"] = _interfaces(pool.machine.efa)
    if pool.placement is Placement.COMPACT:
        spec["placementGroupSelector"] = {"name": found.placement[pool.name]}
    spec |= _reservation(pool)
    return manifest("karpenter.k8s.aws/v1", "EC2NodeClass", pool.name, spec=spec)


def auto_node_class(pool: Pool, cluster: EksCluster, found: Found) -> Manifest:
    body = _auto_class(pool.name, cluster, found, zones=pool.zones or cluster.zones, gib=pool.boot_disk_gib)
    body["spec"] |= _reservation(pool)
    return body


def _auto_class(name: str, cluster: EksCluster, found: Found, *, zones: Sequence[str], gib: int) -> Manifest:
    """Without tags: the policies that AWS has for Auto Mode do not let it set any of ours.
    https://docs.aws.amazon.com/eks/latest/userguide/auto-learn-iam.html
    """
    return manifest(
        "eks.amazonaws.com/v1",
        "NodeClass",
        name,
        spec={
            "role": found.role,
            "subnetSelectorTerms": _subnets(zones, found),
            "securityGroupSelectorTerms": [{"id": found.shared}],
            "ephemeralStorage": {"size": f"{gib}Gi"},
            "networkPolicy": "DefaultAllow",
        },
    )


def network_policies() -> Manifest:
    """Without it Auto Mode accepts NetworkPolicies and enforces none: tenants would not be isolated.
    https://docs.aws.amazon.com/eks/latest/userguide/auto-net-pol.html
    """
    return manifest(
        "v1",
        "ConfigMap",
        _NETWORK_POLICIES,
        namespace="kube-system",
        data={"enable-network-policy-controller": "true"},
    )


def default_storage_class() -> Manifest:
    """Auto Mode brings the driver of EBS and no class.
    Source: https://docs.aws.amazon.com/eks/latest/userguide/create-storage-class.html, read 2026-11-27
    """
    made = manifest(
        "storage.k8s.io/v1",
        "StorageClass",
        names.AUTO_MODE_CLASS,
        provisioner="ebs.csi.eks.amazonaws.com",
        parameters={"type": "gp3", "encrypted": "true"},
        volumeBindingMode="WaitForFirstConsumer",
        allowVolumeExpansion=True,
    )
    made["metadata"]["annotations"] = {"storageclass.kubernetes.io/is-default-class": "true"}
    return made


def _limits(pool: Pool) -> dict[str, str]:
    if pool.is_gpu:
        return {pool.device: str(pool.max_nodes * pool.gpus_per_node)}
    return {"cpu": format_cpu(Millicores(pool.machine.cpu * pool.max_nodes))}


def _reservation(pool: Pool) -> dict[str, Any]:
    """A pool takes from its own reservation. Without a selector Karpenter takes from none."""
    return {"capacityReservationSelectorTerms": [{"id": pool.reservation.name}]} if pool.reservation else {}


def _subnets(zones: Sequence[str], found: Found) -> list[dict[str, str]]:
    return [{"id": found.subnets[zone]} for zone in zones]


def _interfaces(count: int) -> list[dict[str, Any]]:
    """As in the launch templates of node groups (components/clusters/eks/launch.py)."""
    first = {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"}
    rest = (
        {"networkCardIndex": card, "deviceIndex": 1 if card == 0 else 0, "interfaceType": "efa-only"}
        for card in range(count)
    )
    return [first, *rest]


def _in(key: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": list(values)}
