"""What GKE says of node pools beyond container.v1.

Queued pools: https://cloud.google.com/kubernetes-engine/docs/how-to/provisioningrequest and the
preconditions of GoogleCloudPlatform/cluster-toolkit modules/compute/gke-node-pool/main.tf (v1.95.0), which
were found by being refused.
"""

from collections.abc import Callable, Iterator
from math import prod
from typing import Any, Final

from tests.clouds.standin.refusal import Refusal
from tests.clouds.standin.rules import alone, among
from tests.clouds.standin.rules.gke import name_is_legal
from tests.clouds.standin.tables.gke import CLUSTER_TYPE, POOL_TYPE
from tests.clouds.standin.values import Inputs, each, get

# https://cloud.google.com/compute/docs/accelerator-optimized-machines and
# https://cloud.google.com/compute/docs/gpus: a family of machines has these GPUs and no others.
_GPUS: Final = {
    "g2-": ("nvidia-l4",),
    "a2-highgpu-": ("nvidia-tesla-a100",),
    "a2-megagpu-": ("nvidia-tesla-a100",),
    "a2-ultragpu-": ("nvidia-a100-80gb",),
    "a3-highgpu-": ("nvidia-h100-80gb",),
    "a3-edgegpu-": ("nvidia-h100-80gb",),
    "a3-megagpu-": ("nvidia-h100-mega-80gb",),
    "a3-ultragpu-": ("nvidia-h200-141gb",),
    "a4-highgpu-": ("nvidia-b200",),
    "n1-": ("nvidia-tesla-t4", "nvidia-tesla-v100", "nvidia-tesla-p4", "nvidia-tesla-p100"),
}
# The number that a name of these families ends with is how many GPUs the machine has.
_COUNTED: Final = ("a2-highgpu-", "a2-megagpu-", "a2-ultragpu-", "a3-highgpu-", "a3-megagpu-", "a3-ultragpu-")
_G2: Final = {4: 1, 8: 1, 12: 1, 16: 1, 32: 1, 24: 2, 48: 4, 96: 8}
# Zones of us-central1, and those that do not sell a family: "Accelerator type does not exist in zone".
# github.com/skypilot-org/skypilot-catalog, catalogs/v8/gcp/vms.csv, revision 8427bbff.
_REGION, _ZONES = "us-central1", "abcf"
_NOT_SOLD: Final = {"g2-": "f", "a3-": "f", "a2-ultragpu-": "bf", "a3-ultragpu-": "acf", "a4-highgpu-": "acf"}
# https://cloud.google.com/compute/docs/instances/about-dws: ten minutes to seven days.
_TPUS: Final = ("ct5lp-", "ct5p-", "ct6e-")
_SHORTEST, _LONGEST = 600, 7 * 24 * 3600


def _is_queued(inputs: Inputs) -> bool:
    return bool(get(inputs, "queuedProvisioning.enabled"))


def _is_flex(inputs: Inputs) -> bool:
    return _is_queued(inputs) or bool(get(inputs, "nodeConfig.flexStart"))


@alone(POOL_TYPE)
def pool_names_are_legal(inputs: Inputs) -> Iterator[Refusal]:
    """See gke.name_is_legal."""
    yield from name_is_legal(inputs)


@alone(POOL_TYPE)
def gpus_are_sold_in_the_pools_zones(inputs: Inputs) -> Iterator[Refusal]:
    """Without zones of its own a pool gets any of the region, also one that does not sell its machine."""
    machine = str(get(inputs, "nodeConfig.machineType") or "")
    family = max((each for each in _NOT_SOLD if machine.startswith(each)), key=len, default="")
    if not family or inputs.get("location") != _REGION:
        return
    zones = inputs.get("nodeLocations") or [f"{_REGION}-{letter}" for letter in _ZONES]
    for zone in zones:
        if str(zone).removeprefix(f"{_REGION}-") in _NOT_SOLD[family]:
            yield Refusal("nodeLocations", f"{machine}: accelerator type does not exist in zone {zone}")


@alone(POOL_TYPE)
def queued_pools_begin_empty(inputs: Inputs) -> Iterator[Refusal]:
    """Autoscaling is on, its minimum is 0, and there is no count of nodes."""
    if not _is_queued(inputs):
        return
    if not inputs.get("autoscaling"):
        yield Refusal("autoscaling", "queued provisioning needs autoscaling")
    for name in (
        "autoscaling.minNodeCount",
        "autoscaling.totalMinNodeCount",
        "initialNodeCount",
        "nodeCount",
    ):
        if get(inputs, name):
            yield Refusal(name, "is 0 in a queued pool: its nodes come from ProvisioningRequests alone")


@alone(POOL_TYPE)
def queued_pools_take_any_zone(inputs: Inputs) -> Iterator[Refusal]:
    """Location policy ANY."""
    policy = get(inputs, "autoscaling.locationPolicy")
    if _is_queued(inputs) and policy != "ANY":
        yield Refusal("autoscaling.locationPolicy", f"is ANY in a queued pool, not {policy!r}")


@alone(POOL_TYPE)
def queued_pools_take_no_reservation(inputs: Inputs) -> Iterator[Refusal]:
    """consume_reservation_type NO_RESERVATION, said and not left out."""
    kind = get(inputs, "nodeConfig.reservationAffinity.consumeReservationType")
    if _is_flex(inputs) and kind != "NO_RESERVATION":
        yield Refusal(
            "nodeConfig.reservationAffinity.consumeReservationType",
            f"is NO_RESERVATION with flex-start or queued provisioning, not {kind!r}",
        )


@alone(POOL_TYPE)
def queued_pools_are_not_spot(inputs: Inputs) -> Iterator[Refusal]:
    """Spot, preemptible and flex-start exclude each other."""
    for name in ("nodeConfig.spot", "nodeConfig.preemptible"):
        if _is_flex(inputs) and get(inputs, name):
            yield Refusal(name, "cannot be set with flex-start or queued provisioning")


@alone(POOL_TYPE)
def queued_pools_have_no_compact_placement(inputs: Inputs) -> Iterator[Refusal]:
    """No placement policy of type COMPACT with GPUs that are queued for, and with flex-start on A3 Ultra, A4
    and H4D alone. Slices of TPUs have one with their topology: cluster-toolkit,
    examples/gke-consumption-options, gke-tpu-v6e.
    """
    is_compact = get(inputs, "placementPolicy.type") == "COMPACT"
    machine = str(get(inputs, "nodeConfig.machineType"))
    if not _is_queued(inputs) and machine.startswith(("a3-ultragpu-", "a4-", "h4d-")):
        return
    if _is_flex(inputs) and is_compact and not get(inputs, "placementPolicy.tpuTopology"):
        yield Refusal("placementPolicy.type", "COMPACT cannot be had with flex-start or queued provisioning")


@alone(POOL_TYPE)
def flex_pools_are_not_repaired(inputs: Inputs) -> Iterator[Refusal]:
    """auto_repair false, said: the provider's default is true."""
    if _is_flex(inputs) and get(inputs, "management.autoRepair") is not False:
        yield Refusal("management.autoRepair", "is false with flex-start (the provider's default is true)")


@alone(POOL_TYPE)
def run_durations_are_of_flex_pools(inputs: Inputs) -> Iterator[Refusal]:
    """maxRunDuration: 600s to 604800s, and only where nodes are given for a time."""
    duration = get(inputs, "nodeConfig.maxRunDuration")
    if duration is None:
        return
    if not (_is_flex(inputs) or get(inputs, "nodeConfig.spot")):
        yield Refusal("nodeConfig.maxRunDuration", "is of flex-start and queued pools")
    if not _SHORTEST <= float(str(duration).removesuffix("s")) <= _LONGEST:
        yield Refusal("nodeConfig.maxRunDuration", f"is 600s to 604800s, not {duration}")


@alone(POOL_TYPE)
def limits_are_per_zone_or_total(inputs: Inputs) -> Iterator[Refusal]:
    """terraform-provider-google's node pool: total limits cannot be used with per-zone limits; the API wants
    a maximum that is no less than the minimum.
    """
    limits = inputs.get("autoscaling") or {}
    zonal = [limits.get(name) for name in ("minNodeCount", "maxNodeCount")]
    total = [limits.get(name) for name in ("totalMinNodeCount", "totalMaxNodeCount")]
    if any(zonal) and any(total):
        yield Refusal("autoscaling", "has limits of a zone or total limits, not both")
    for least, most in (zonal, total):
        if isinstance(least, int) and isinstance(most, int) and least > most:
            yield Refusal("autoscaling", f"its minimum {least} is above its maximum {most}")


@alone(POOL_TYPE)
def machines_have_their_own_gpus(inputs: Inputs) -> Iterator[Refusal]:
    """GPU type and count fit the machine family."""
    machine = get(inputs, "nodeConfig.machineType") or ""
    family = next((prefix for prefix in _GPUS if machine.startswith(prefix)), None)
    gpus = each(inputs, "nodeConfig.guestAccelerators")
    for index, gpu in enumerate(gpus):
        path = f"nodeConfig.guestAccelerators[{index}]"
        if family is None:
            yield Refusal(path, f"{machine} takes no GPUs")
        elif gpu["type"] not in _GPUS[family]:
            yield Refusal(f"{path}.type", f"{machine} has {' or '.join(_GPUS[family])}, not {gpu['type']}")
        elif (count := _count(machine, family)) is not None and gpu["count"] != count:
            yield Refusal(f"{path}.count", f"{machine} has {count} GPUs, not {gpu['count']}")
    if family not in (None, "n1-") and not gpus:
        yield Refusal("nodeConfig.guestAccelerators", f"{machine} has GPUs that must be named")


def _count(machine: str, family: str) -> int | None:
    last = machine.rpartition("-")[2]
    if family == "g2-":
        return _G2.get(int(last))
    return int(last.removesuffix("g")) if family in _COUNTED else None


@alone(POOL_TYPE)
def slices_are_whole(inputs: Inputs) -> Iterator[Refusal]:
    """A node pool with a topology is one slice in one zone: its nodes are the slice's chips by those of a
    machine, and so is its maximum (https://cloud.google.com/kubernetes-engine/docs/how-to/tpus; the README of
    cluster-toolkit's gke-tpu-v6e). A slice of one node is made without a topology (AI-Hypercomputer/xpk).
    """
    topology, machine = (
        get(inputs, "placementPolicy.tpuTopology"),
        get(inputs, "nodeConfig.machineType") or "",
    )
    if not topology:
        return
    if not machine.startswith(_TPUS):
        yield Refusal("placementPolicy.tpuTopology", f"{machine} has no TPUs")
        return
    nodes = prod(map(int, topology.split("x"))) // int(machine.rpartition("-")[2].removesuffix("t"))
    if nodes < 2:
        yield Refusal("placementPolicy.tpuTopology", "is of slices of several nodes alone")
    if get(inputs, "placementPolicy.type") != "COMPACT":
        yield Refusal("placementPolicy.type", "is COMPACT with a topology")
    if len(each(inputs, "nodeLocations")) != 1:
        yield Refusal("nodeLocations", "a slice is in one zone")
    if get(inputs, "autoscaling.maxNodeCount") != nodes:
        yield Refusal("autoscaling.maxNodeCount", f"a slice of {topology} is {nodes} nodes of {machine}")


@alone(POOL_TYPE)
def a_reservation_is_named(inputs: Inputs) -> Iterator[Refusal]:
    """https://cloud.google.com/kubernetes-engine/docs/how-to/consuming-reservations: a specific reservation
    goes by key compute.googleapis.com/reservation-name and its name, and no other kind has one.
    """
    path = "nodeConfig.reservationAffinity"
    kind, key = get(inputs, f"{path}.consumeReservationType"), get(inputs, f"{path}.key")
    values = each(inputs, f"{path}.values")
    if kind == "SPECIFIC_RESERVATION":
        if key != "compute.googleapis.com/reservation-name" or len(values) != 1:
            yield Refusal(
                path,
                "a specific reservation has the key compute.googleapis.com/reservation-name and one value",
            )
    elif key or values:
        yield Refusal(path, f"{kind} names no reservation")


@alone(POOL_TYPE)
def the_driver_has_one_owner(inputs: Inputs) -> Iterator[Refusal]:
    """A pool with the label gke-no-default-nvidia-gpu-device-plugin and a driver that GKE manages comes up
    without a driver: NVIDIA/aicr pull request 2044.
    """
    labels = inputs.get("nodeConfig", {}).get("labels") or {}
    if labels.get("gke-no-default-nvidia-gpu-device-plugin") != "true":
        return
    for index, gpu in enumerate(each(inputs, "nodeConfig.guestAccelerators")):
        version = (gpu.get("gpuDriverInstallationConfig") or {}).get("gpuDriverVersion")
        if version != "INSTALLATION_DISABLED":
            path = f"nodeConfig.guestAccelerators[{index}].gpuDriverInstallationConfig"
            yield Refusal(path, "is INSTALLATION_DISABLED where GKE's device plugin is kept off by the label")


@alone(POOL_TYPE)
def labels_leave_kubernetes_names_alone(inputs: Inputs) -> Iterator[Refusal]:
    """https://cloud.google.com/kubernetes-engine/docs/how-to/creating-managing-labels: prefixes kubernetes.io
    and k8s.io are reserved.
    """
    for name in inputs.get("nodeConfig", {}).get("labels") or {}:
        prefix = name.partition("/")[0] if "/" in name else ""
        if prefix.endswith(("kubernetes.io", "k8s.io")):
            yield Refusal(f'nodeConfig.labels["{name}"]', "kubernetes.io and k8s.io are reserved")


@alone(POOL_TYPE)
def surges_move(inputs: Inputs) -> Iterator[Refusal]:
    """https://cloud.google.com/kubernetes-engine/docs/how-to/node-pool-upgrade-strategies: maxSurge and
    maxUnavailable cannot both be 0, and are 20 together at most.
    """
    settings = inputs.get("upgradeSettings") or {}
    if settings.get("strategy", "SURGE") != "SURGE":
        return
    both = [settings[name] for name in ("maxSurge", "maxUnavailable") if isinstance(settings.get(name), int)]
    if len(both) == 2 and not 1 <= sum(both) <= 20:
        yield Refusal("upgradeSettings", "maxSurge and maxUnavailable are 1 to 20 together")


Find = Callable[[str, Any], Inputs | None]


@among(POOL_TYPE)
def a_channel_upgrades_its_pools(inputs: Inputs, find: Find) -> Iterator[Refusal]:
    """The API: "Auto_upgrade cannot be false when release_channel REGULAR is set"
    (terraform-google-modules/terraform-google-kubernetes-engine pull request 682).
    """
    cluster = find(CLUSTER_TYPE, inputs.get("cluster")) or {}
    channel = get(cluster, "releaseChannel.channel") or "REGULAR"
    if channel != "UNSPECIFIED" and get(inputs, "management.autoUpgrade") is False:
        yield Refusal("management.autoUpgrade", f"cannot be false when release_channel {channel} is set")


@among(POOL_TYPE)
def unchannelled_queued_pools_are_not_upgraded(inputs: Inputs, find: Find) -> Iterator[Refusal]:
    """cluster-toolkit examples/gke-consumption-options/dws-flex-start-queued-provisioning: auto_upgrade false
    is a requirement of queued provisioning; with a channel, GKE upgrades by its SHORT_LIVED strategy.
    """
    cluster = find(CLUSTER_TYPE, inputs.get("cluster")) or {}
    bare = get(cluster, "releaseChannel.channel") == "UNSPECIFIED"
    if bare and _is_queued(inputs) and get(inputs, "management.autoUpgrade") is not False:
        yield Refusal("management.autoUpgrade", "is false in a queued pool of a cluster without a channel")


@among(POOL_TYPE)
def pools_stand_where_their_cluster_does(inputs: Inputs, find: Find) -> Iterator[Refusal]:
    """A node pool's path is its cluster's: another location is another (missing) cluster. Zones of a pool lie
    in the cluster's region.
    """
    cluster = find(CLUSTER_TYPE, inputs.get("cluster")) or {}
    here, there = inputs.get("location"), cluster.get("location")
    if here and there and here != there:
        yield Refusal("location", f"is {there}, where the cluster stands, not {here}")
    for index, zone in enumerate(inputs.get("nodeLocations") or ()):
        if there and not str(zone).startswith(str(there)):
            yield Refusal(f"nodeLocations[{index}]", f"{zone} lies outside {there}")
