"""Pools of EKS as objects of Karpenter, and of EKS Auto Mode, which has the same NodePools and a smaller
class.

Pure: what exists in AWS alone (ids of subnets and security groups, the name of a role) is handed in. Fields:
https://karpenter.sh/docs/concepts/nodepools/ and .../nodeclasses/, the CRDs of Karpenter 1.14.1, and
https://docs.aws.amazon.com/eks/latest/userguide/create-node-class.html
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from muster.model import gpu_operator, names
from muster.model.capacity import Capacity, Reservation
from muster.model.clusters import EksCluster, GkeCluster
from muster.model.clusters.eks import KARPENTER_CAPACITY, KARPENTER_CAPACITY_LABEL
from muster.model.node_labels import node_labels
from muster.model.pools import Image, ImagePull, LocalDisks, Placement, Pool
from muster.model.quantities import Millicores, format_cpu
from muster.render.kueue.cluster import device_taint
from muster.render.manifest import Manifest, manifest

# Pools of GKE as ComputeClasses, from which GKE makes node pools by itself for pods that wait.
# Pure: the email of the nodes' service account is handed in. Fields:
# https://cloud.google.com/kubernetes-engine/docs/reference/crds/computeclass

_API: Final = "cloud.google.com/v1"
# Only a node without pods goes, after the least time that GKE takes. Between its placeholders and its pods a
# gang's node is empty for a moment (docs/decisions/023-gangs-by-placeholders.md).
_EMPTY_MINUTES: Final = 1


def compute_classes(pools: Sequence[Pool], cluster: GkeCluster, *, service_account: str) -> list[Manifest]:
    return [compute_class(pool, cluster, service_account=service_account) for pool in pools]


def compute_class(pool: Pool, cluster: GkeCluster, *, service_account: str) -> Manifest:
    """One pool. GKE puts the class into a label and a taint of its nodes by itself, and taints GPU nodes."""
    labels = {**pool.labels, names.POOL_LABEL: pool.name, **gpu_operator.node_labels(pool, cluster)}
    return manifest(
        _API,
        "ComputeClass",
        pool.name,
        spec={
            "priorities": [_rule(pool, cluster, each) for each in (pool.capacity, *pool.fallback)],
            # Any other machine would have none of the pool's GPUs.
            "whenUnsatisfiable": "DoNotScaleUp",
            "nodePoolAutoCreation": {"enabled": True},
            "nodePoolConfig": {
                "imageType": "cos_containerd",
                "serviceAccount": service_account,
                "nodeLabels": dict(sorted(labels.items())),
            },
            # A move to a better rule would take nodes from what runs.
            "activeMigration": {"optimizeRulePriority": False},
            "autoscalingPolicy": {
                "consolidationDelayMinutes": _EMPTY_MINUTES,
                "consolidationThreshold": 0,
                "gpuConsolidationThreshold": 0,
            },
        },
    )


def _rule(pool: Pool, cluster: GkeCluster, capacity: Capacity) -> dict[str, Any]:
    reservation = pool.reservation if capacity.is_reserved else None
    zones = list(cluster.zones_of(pool))
    storage: dict[str, Any] = {"bootDiskSize": pool.boot_disk_gib}
    if pool.machine.disk:
        storage["bootDiskType"] = pool.machine.disk
    if cluster.kms_key:
        storage["bootDiskKMSKey"] = cluster.kms_key
    if pool.local_disks is LocalDisks.EPHEMERAL:
        storage["localSSDCount"] = pool.machine.local_disks
    rule: dict[str, Any] = {
        "machineType": pool.machine.name,
        "spot": capacity is Capacity.SPOT,
        "storage": storage,
        "reservations": _reservations(reservation, zones),
    }
    if pool.is_gpu:
        rule["gpu"] = {
            "type": pool.machine.accelerator,
            "count": pool.gpus_per_node,
            "driverVersion": cluster.gpu_driver.value,
        }
    # With a reservation its zones are said there, and GKE refuses both.
    if zones and reservation is None:
        rule["location"] = {"zones": zones}
    if pool.max_run is not None:
        rule["maxRunDurationSeconds"] = pool.max_run
    return rule


def _reservations(reservation: Reservation | None, zones: list[str]) -> dict[str, Any]:
    """A pool takes from its own reservation alone: without a word GKE would use up any that is open."""
    if reservation is None:
        return {"affinity": "None"}
    project = {"project": reservation.project} if reservation.project else {}
    return {"affinity": "Specific", "specific": [{"name": reservation.name, **project, "zones": zones}]}


# User data of EKS nodes: local NVMe disks as one striped volume under images, logs and containers' files,
# SOCI as what pulls images, and GPUs that no container takes by a variable.
# Source: https://docs.aws.amazon.com/eks/latest/eksctl/node-bootstrapping.html,
# https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/,
# https://bottlerocket.dev/en/os/latest/#/api/settings/bootstrap-commands/ and
# https://bottlerocket.dev/en/os/1.44.x/api/settings/container-runtime-plugins, read 2026-11-27

_BOUNDARY: Final = "MUSTER"
_BIND: Final = ["apiclient", "ephemeral-storage", "bind", "--dirs"]
_DIRECTORIES: Final = ["/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods"]
_SOCI_DIRECTORY: Final = "/var/lib/soci-snapshotter"
# NVIDIA's runtime starts every container of AL2023's NVIDIA images. By default it gives a container the GPUs
# that its variable NVIDIA_VISIBLE_DEVICES names: all, in most images of CUDA. The device plugin names them by
# CDI (model/gpu_operator.py). The runtime reads the file at each start of a container. cloud-init runs this
# before nodeadm starts the kubelet, without which the node never joins. Bottlerocket has this default.
# Source: https://github.com/NVIDIA/nvidia-container-toolkit at v1.20.0, internal/config/image/cuda_image.go
# and cmd/nvidia-ctk/config; https://github.com/awslabs/amazon-eks-ami at 81fec2e8, nodeadm/internal/
# containerd and templates/al2023/runtime/rootfs/etc/systemd/system/nodeadm-run.service, read 2026-11-27
_CLOSE_GPUS: Final = """\
#!/usr/bin/env bash
nvidia-ctk config --in-place --set accept-nvidia-visible-devices-envvar-when-unprivileged=false ||
  systemctl mask kubelet"""


def user_data(pool: Pool, *, by_karpenter: bool = False) -> str | None:
    """The text for the image of the pool; None where its nodes boot as they are. Karpenter has a field for
    the disks.
    """
    has_disks = pool.local_disks is LocalDisks.EPHEMERAL and not by_karpenter
    is_parallel = pool.image_pull is ImagePull.PARALLEL
    if pool.image is Image.BOTTLEROCKET:
        return _bottlerocket(has_disks=has_disks, is_parallel=is_parallel)
    return _al2023(
        has_disks=has_disks, is_parallel=is_parallel, closes_gpus=pool.is_nvidia and not pool.by_variable
    )


def _al2023(*, has_disks: bool, is_parallel: bool, closes_gpus: bool) -> str | None:
    """EKS puts its own part beside these, so they have to be parts of a MIME document. JSON is YAML."""
    spec: dict[str, Any] = {}
    if has_disks:
        spec["instance"] = {"localStorage": {"strategy": "RAID0"}}
    if is_parallel:
        spec["featureGates"] = {"FastImagePull": True}
    parts = {"text/x-shellscript": _CLOSE_GPUS} if closes_gpus else {}
    if spec:
        config = {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}
        parts["application/node.eks.aws"] = json.dumps(config, sort_keys=True)
    if not parts:
        return None
    lines = ["MIME-Version: 1.0", f'Content-Type: multipart/mixed; boundary="{_BOUNDARY}"', ""]
    for kind, part in parts.items():
        lines += [f"--{_BOUNDARY}", f"Content-Type: {kind}", "", part]
    return "\n".join((*lines, f"--{_BOUNDARY}--", ""))


def _bottlerocket(*, has_disks: bool, is_parallel: bool) -> str | None:
    lines: list[str] = []
    if has_disks:
        directories = [*_DIRECTORIES, *([_SOCI_DIRECTORY] if is_parallel else [])]
        commands = [["apiclient", "ephemeral-storage", "init"], [*_BIND, *directories]]
        lines += [
            "[settings.bootstrap-commands.local-disks]",
            f"commands = {json.dumps(commands)}",
            'mode = "always"',
            "essential = true",
        ]
    if is_parallel:
        lines += [
            "[settings.container-runtime]",
            'snapshotter = "soci"',
            "[settings.container-runtime-plugins.soci-snapshotter]",
            'pull-mode = "parallel-pull-unpack"',
        ]
    return "\n".join((*lines, "")) if lines else None


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
    """As in the launch templates of node groups (components/clusters/eks/groups.py)."""
    first = {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"}
    rest = (
        {"networkCardIndex": card, "deviceIndex": 1 if card == 0 else 0, "interfaceType": "efa-only"}
        for card in range(count)
    )
    return [first, *rest]


def _in(key: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": list(values)}
