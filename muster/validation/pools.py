"""Pools: the keys that a capacity type requires, and what a provider and machine support.

The reference page of a rule is named at the rule. Which machine is sold with which capacity type is in
machines.py; image, disks, placement and networks are in nodes.py.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from muster.model import names
from muster.model.capacity import LEGAL_CAPACITY, PROVISIONING_CLASSES, Capacity
from muster.model.clusters import Cluster
from muster.model.clusters.eks import LONGEST_GROUP
from muster.model.machines import PAGES, zones_read, zones_selling
from muster.model.node_labels import zones_without_machine
from muster.model.pools import IMAGES, MOST_RUN, Image, ImagePull, LocalDisks, Placement, Pool, missing_on
from muster.model.regions import Provider
from muster.model.stack import Stack
from muster.model.violations import Violation, suggestion
from muster.validation.clusters import GKE_NAME, zone_rules
from muster.validation.machines import Choice, bought, choice_rules, described_rules, tpu_rules
from muster.validation.provisioners import fallback_rules

# Nodes: image, zones, disks, placement, EFA, networks and labels that a pool's provider and machine have.

# Seen by others: https://github.com/eksctl-io/eksctl/issues/7949 and
# https://github.com/terraform-aws-modules/terraform-aws-eks/pull/3730, read 2026-11-27
_UNFILLED: Final = "EC2 may launch fewer nodes than are reserved, or none (InsufficientInstanceCapacity)."

# Flex-start is compact on these alone: github.com/GoogleCloudPlatform/cluster-toolkit at 1.95.0,
# modules/compute/gke-node-pool, read 2026-11-27
_COMPACT_FLEX: Final = ("a3-ultragpu-", "a4-highgpu-")
# The same module, enable_dranet.
_PROFILED: Final = ("a3-", "a4-", "ct6e-")


def node_rules(pool: Pool, cluster: Cluster, path: str) -> Iterator[Violation]:
    yield from _made_by_us(pool, cluster.provider, path)
    if not cluster.is_ours:
        return
    if cluster.provider is Provider.GKE and not GKE_NAME.match(pool.name):
        fix = "use at most 40 of a-z, 0-9 and -, beginning with a letter."
        yield Violation(path, f"{pool.name!r} cannot be the name of a node pool of GKE.", fix)
    yield from _zones(pool, path, cluster)
    yield from _image(pool, cluster.provider, path)
    yield from _plugin(pool, cluster, path)
    yield from _disks(pool, path)
    yield from _placement(pool, path)
    yield from _network(pool, cluster.provider, path)
    yield from _fabric(pool, path, cluster)
    for key in pool.labels:
        if key.partition("/")[0] in (names.GROUP, "kubernetes.io", "k8s.io") or key == names.GKE_QUEUED_LABEL:
            message = f"the label {key} is not the stack's to set."
            yield Violation(f"{path}.labels", message, "use a prefix of your own.")


def node_group_rules(pools: Iterable[Pool], cluster: Cluster) -> Iterator[Violation]:
    """The names of the node groups of all pools of an EKS cluster."""
    seen: dict[str, str] = {}
    for pool in pools:
        path = f"muster:pools.{pool.name}"
        names_of_pool = cluster.group_names(pool)
        longest = max(names_of_pool, key=len, default="")
        if len(pool.name) <= LONGEST_GROUP < len(longest):
            message = (
                f"its node group in a zone would be {longest!r}, and EKS takes {LONGEST_GROUP} characters."
            )
            fix = f"use a name shorter by {len(longest) - LONGEST_GROUP}, or name one zone."
            yield Violation(path, message, fix)
        for name in names_of_pool:
            other = seen.setdefault(name, pool.name)
            if other != pool.name:
                message = f"its node group would be {name!r}, as one of pool {other}."
                yield Violation(path, message, "give one of the two pools another name.")


def _made_by_us(pool: Pool, provider: Provider, path: str) -> Iterator[Violation]:
    """Muster does not make the nodes of an existing cluster, so settings of nodes would have no effect."""
    if provider is not Provider.EXISTING:
        return
    said = {
        "zones": bool(pool.zones),
        "image": pool.image is not None,
        "localDisks": pool.local_disks is not LocalDisks.NONE,
        "imagePull": pool.image_pull is not ImagePull.STANDARD,
        "placement": pool.placement is not Placement.ANY,
        "efa": pool.efa,
        "networks": bool(pool.networks),
        "labels": bool(pool.labels),
    }
    for key, is_said in said.items():
        if is_said:
            message = "Muster does not make the nodes of an existing cluster."
            yield Violation(f"{path}.{key}", message, "remove it, and set it where the nodes are made.")


def _zones(pool: Pool, path: str, cluster: Cluster) -> Iterator[Violation]:
    for index, zone in enumerate(pool.zones):
        if cluster.zones and zone not in cluster.zones:
            message = f"{zone} is no zone of the cluster."
            yield Violation(f"{path}.zones[{index}]", message, suggestion(zone, cluster.zones, noun="zone"))
    if not cluster.zones:
        yield from zone_rules(f"{path}.zones", pool.zones, cluster.region, cluster.provider)
    if len(set(pool.zones)) < len(pool.zones):
        yield Violation(f"{path}.zones", "names a zone twice.", "write each once.")
    yield from _not_sold(pool, path, cluster)


def _not_sold(pool: Pool, path: str, cluster: Cluster) -> Iterator[Violation]:
    """A warning: the table is of one day, and the project's own answer is the doctor's to ask for."""
    missing = zones_without_machine(pool, cluster)
    if missing:
        machine = pool.machine.name
        sold = sorted(zone for zone in zones_selling(machine) if zone.startswith(f"{cluster.region}-"))
        day, _ = zones_read()
        message = f"{machine} was not sold in {', '.join(missing)} on {day}."
        where = f"write `zones: [{', '.join(sold)}]`" if sold else "choose another region or machine"
        fix = f"{where}; `muster doctor` asks the project."
        yield Violation(f"{path}.zones", message, fix, level="warning")


def _image(pool: Pool, provider: Provider, path: str) -> Iterator[Violation]:
    if pool.image is not None and pool.image not in IMAGES[provider]:
        fix = suggestion(pool.image, IMAGES[provider], noun="image")
        yield Violation(f"{path}.image", f"provider {provider} has no image {pool.image}.", fix)
    elif pool.device == names.NEURON_RESOURCE and pool.image is Image.BOTTLEROCKET:
        message = f"Bottlerocket has no image with the driver of {pool.devices}."
        yield Violation(f"{path}.image", message, "write `image: al2023`.")
    elif pool.is_nvidia and pool.image is Image.BOTTLEROCKET:
        message = (
            "Bottlerocket brings driver, container toolkit and device plugin itself. The GPU Operator keeps "
            "off these nodes, so there are no metrics of its GPUs (dcgm-exporter) and no labels of a GPU."
        )
        fix = "nothing, if that is meant; otherwise write `image: al2023`."
        yield Violation(f"{path}.image", message, fix, level="warning")


def _plugin(pool: Pool, cluster: Cluster, path: str) -> Iterator[Violation]:
    """A warning where something else than Muster has to advertise the accelerators. Auto Mode does it itself:
    https://docs.aws.amazon.com/eks/latest/userguide/automode.html
    """
    if pool.device == names.NEURON_RESOURCE and not cluster.is_auto:
        message = f"Muster does not install the device plugin that advertises {pool.device}."
        fix = "install Neuron's: https://awsdocs-neuron.readthedocs-hosted.com/en/latest/containers/kubernetes-getting-started.html"
        yield Violation(f"{path}.machine", message, f"{fix}.", level="warning")


def _disks(pool: Pool, path: str) -> Iterator[Violation]:
    if pool.local_disks is LocalDisks.EPHEMERAL and not pool.machine.local_disks:
        message = f"machine {pool.machine.name} comes with no local disks."
        yield Violation(f"{path}.localDisks", message, "remove it, or choose a machine that has some.")
    if pool.image_pull is not ImagePull.PARALLEL:
        return
    if pool.machine.provider is not Provider.EKS:
        yield Violation(f"{path}.imagePull", "parallel pull is of the images that EKS has.", "remove it.")
    elif pool.local_disks is LocalDisks.NONE and pool.machine.local_disks:
        # AWS recommends 600 MiB/s; a gp3 volume has 125.
        # Source: https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/examples/, read 2026-11-27
        message = "the boot disk is slower than the network, and limits a parallel pull."
        yield Violation(f"{path}.imagePull", message, "write `localDisks: ephemeral`.", level="warning")


def _placement(pool: Pool, path: str) -> Iterator[Violation]:
    if pool.placement is not Placement.COMPACT:
        return
    provider = pool.machine.provider
    if provider is Provider.GKE and pool.capacity is Capacity.QUEUED:
        # github.com/GoogleCloudPlatform/cluster-toolkit, modules/compute/gke-node-pool
        message = "a queued pool of GKE takes no compact placement."
        yield Violation(f"{path}.placement", message, "remove it, or use on-demand or a reservation.")
    elif pool.capacity is Capacity.FLEX_START and pool.machine.name.startswith(_COMPACT_FLEX):
        pass
    elif pool.capacity is Capacity.FLEX_START or not pool.machine.compact:
        message = f"machine {pool.machine.name} takes no compact placement."
        yield Violation(f"{path}.placement", message, "remove it, or choose another machine.")
    if len(pool.zones) != 1:
        message = "compact placement is within one zone."
        yield Violation(f"{path}.zones", message, "write the one zone: zones: [...].")
    if provider is Provider.EKS and pool.capacity.is_reserved:
        yield from _reserved_placement(pool, path)
    elif provider is not Provider.EKS and pool.placement_group is not None:
        message = "placement groups are EC2's."
        yield Violation(f"{path}.placement.group", message, "write `placement: compact`.")


def _reserved_placement(pool: Pool, path: str) -> Iterator[Violation]:
    """A warning. Reserved instances launch into the group in which they were reserved, and a reservation
    made outside of a group stays there; those of a capacity block are close together by themselves.
    Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/cr-cpg.html and
    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-blocks-using.html, read 2026-11-27
    """
    if pool.capacity is Capacity.CAPACITY_BLOCK:
        message = "the nodes of a capacity block are close together without a placement group."
        yield Violation(f"{path}.placement", f"{message} {_UNFILLED}", "remove it.", level="warning")
    elif pool.placement_group is None:
        message = "the stack makes a new placement group, and the reservation was made outside of it."
        fix = "remove it, or name the group of the reservation: `placement: {group: NAME}`."
        yield Violation(f"{path}.placement", f"{message} {_UNFILLED}", fix, level="warning")


def _network(pool: Pool, provider: Provider, path: str) -> Iterator[Violation]:
    if pool.efa and provider is not Provider.EKS:
        yield Violation(f"{path}.efa", "EFA is EC2's.", "remove it; on GKE see `networks`.")
    elif pool.efa and not pool.machine.efa:
        message = f"machine {pool.machine.name} has no EFA."
        yield Violation(f"{path}.efa", message, "remove it, or choose a machine that has it.")
    if pool.networks and provider is not Provider.GKE:
        message = "further networks are for GPUDirect on GKE."
        yield Violation(f"{path}.networks", message, "remove it; on EKS `efa: true` is what is meant.")
    if pool.network_profile is not None:
        yield from _profile(pool, provider, f"{path}.networkProfile")


def _profile(pool: Pool, provider: Provider, path: str) -> Iterator[Violation]:
    if provider is not Provider.GKE:
        yield Violation(path, "is GKE's.", "remove it; on EKS `efa: true` is what is meant.")
    elif not pool.machine.name.startswith(_PROFILED):
        machines = ", ".join(f"{each}*" for each in _PROFILED)
        message = f"machine {pool.machine.name} has none."
        yield Violation(path, message, f"remove it, or choose one of {machines}.")
    elif pool.networks:
        yield Violation(path, "makes the networks that `networks` names.", "keep one of the two.")


def _fabric(pool: Pool, path: str, cluster: Cluster) -> Iterator[Violation]:
    """A warning where jobs of several nodes do not use the machine's network between GPUs."""
    missing = missing_on(pool) if pool.max_nodes > 1 else ""
    if not missing:
        return
    fabric = pool.machine.fabric
    enable = "use `autoscaler: karpenter`" if cluster.is_auto else "remove `efa: false`"
    page = '"Fast networks between nodes" of the documentation'
    key, way = ("networks", f"see the page {page}, and {PAGES[fabric]}") if fabric else ("efa", enable)
    message = f"jobs of several nodes talk over the first network card of each: {missing}."
    fix = f"nothing, if jobs stay on one node; otherwise {way}."
    yield Violation(f"{path}.{key}", message, fix, level="warning")


# Kueue takes at most 64 flavors in a resource group, and all pools share one.
MOST_POOLS: Final = 64
# Flex-start nodes live ten minutes at least:
# https://cloud.google.com/compute/docs/instance-groups/about-resize-requests-mig
LEAST_RUN: Final = 600
_RUN: Final = "maxRunDurationSeconds"


def pool_rules(stack: Stack) -> list[Violation]:
    found = [violation for pool in stack.pools for violation in _pool(pool, stack.cluster)]
    if not stack.cpu_pools and not stack.kueue.flavors:
        message = (
            "has no CPU pool: heads of gangs and CPU jobs run on nodes with GPUs, take CPU and memory from "
            "the work there, and keep the node while they run."
        )
        fix = (
            "nothing, if that is meant: such pods tolerate nvidia.com/gpu, and leave workers less than a "
            "whole node. Otherwise add `cpu: {machine: ..., maxNodes: ...}`."
        )
        found.append(Violation("muster:pools", message, fix, level="warning"))
    found += node_group_rules(stack.pools, stack.cluster)
    if len(stack.pools) > MOST_POOLS:
        message = f"has {len(stack.pools)} pools; Kueue takes {MOST_POOLS} in a resource group."
        found.append(Violation("muster:pools", message, "merge pools of the same machine."))
    return found


def _pool(pool: Pool, cluster: Cluster) -> Iterator[Violation]:
    path = f"muster:pools.{pool.name}"
    provider = cluster.provider
    if pool.name == names.SYSTEM_POOL:
        yield Violation(
            path, f"the name {pool.name!r} is the system's own pool.", "give the pool another name."
        )
    if pool.min_nodes > pool.max_nodes:
        message = f"is {pool.min_nodes}, more than maxNodes {pool.max_nodes}."
        yield Violation(f"{path}.minNodes", message, "lower minNodes or raise maxNodes.")
    yield from (bought if pool.machine.is_own else choice_rules)(_choice(pool, provider), path)
    yield from described_rules(pool.machine, path)
    yield from fallback_rules(pool, cluster, _choice(pool, provider))
    yield from _standing(pool, path)
    yield from _class(pool, provider, path)
    yield from _run(pool, provider, path)
    yield from _reservation(pool, provider, path)
    yield from node_rules(pool, cluster, path)
    yield from _unanswered(pool, cluster, path)
    yield from tpu_rules(pool, cluster, path)


def _choice(pool: Pool, provider: Provider) -> Choice:
    return Choice(
        provider=provider,
        machine=pool.machine.name,
        accelerator=pool.machine.accelerator if pool.is_gpu else None,
        gpus=pool.gpus_per_node,
        capacity=pool.capacity,
    )


def _standing(pool: Pool, path: str) -> Iterator[Violation]:
    if pool.capacity is Capacity.QUEUED and not pool.is_gpu:
        message = "a CPU pool cannot be queued: only GPUs are requested, and a CPU head needs a node at once."
        yield Violation(f"{path}.capacity", message, "use on-demand, or spot where the provider has it.")
    if pool.capacity is Capacity.QUEUED and pool.min_nodes:
        message = "a queued pool has no permanent nodes: they are made for a gang and deleted after it."
        yield Violation(f"{path}.minNodes", message, "remove minNodes, or use on-demand.")
    if pool.capacity is Capacity.FLEX_START and pool.min_nodes:
        message = "flex-start nodes are given for a time and taken away, so there are no permanent ones."
        yield Violation(f"{path}.minNodes", message, "remove minNodes, or use on-demand.")
    if pool.capacity is Capacity.CAPACITY_BLOCK and pool.min_nodes:
        # https://docs.aws.amazon.com/eks/latest/userguide/capacity-blocks-mng.html
        message = (
            "a capacity block has no nodes before it begins and after it ends, so there are no "
            "permanent ones."
        )
        yield Violation(f"{path}.minNodes", message, "remove minNodes: nodes come with the work.")


def _class(pool: Pool, provider: Provider, path: str) -> Iterator[Violation]:
    queued = pool.capacity is Capacity.QUEUED
    if pool.provisioning_class is not None and not queued:
        message = f"only a queued pool has one; this one is {pool.capacity}."
        yield Violation(f"{path}.provisioningClass", message, "remove it, or write `capacity: queued`.")
    elif (
        pool.provisioning_class is not None and pool.provisioning_class not in PROVISIONING_CLASSES[provider]
    ):
        fix = suggestion(pool.provisioning_class, PROVISIONING_CLASSES[provider], noun="class")
        message = f"{pool.provisioning_class!r} is not served on provider {provider}."
        yield Violation(f"{path}.provisioningClass", message, fix)
    if pool.parameters and not queued:
        message = "are for the requests of a queued pool."
        yield Violation(f"{path}.parameters", message, "remove them, or write `capacity: queued`.")


def _run(pool: Pool, provider: Provider, path: str) -> Iterator[Violation]:
    """How long nodes live, and how long a gang may ask for them: never longer."""
    if pool.max_run is not None and provider is not Provider.GKE:
        message = f"provider {provider} does not take nodes away after a time."
        yield Violation(f"{path}.maxRunDuration", message, "remove it.")
    elif pool.max_run is not None and pool.capacity in (Capacity.QUEUED, Capacity.FLEX_START):
        yield from _within(f"{path}.maxRunDuration", pool.max_run)
    asked = pool.parameters.get(_RUN)
    if asked is None or pool.provisioning_class != names.GKE_QUEUED_CLASS:
        return
    if not asked.isdecimal():
        fix = "write seconds, such as 86400."
        yield Violation(f"{path}.parameters.{_RUN}", f"{asked!r} is no number of seconds.", fix)
        return
    most = pool.max_run or MOST_RUN
    if int(asked) > most:
        message = f"requests {asked} s, but nodes of the pool are deleted after {most} s."
        fix = f"write at most {most}, or raise maxRunDuration (at most {MOST_RUN} s, seven days)."
        yield Violation(f"{path}.parameters.{_RUN}", message, fix)
    else:
        yield from _within(f"{path}.parameters.{_RUN}", int(asked))


def _within(path: str, seconds: int) -> Iterator[Violation]:
    if not LEAST_RUN <= seconds <= MOST_RUN:
        message = f"is {seconds} s; flex-start nodes live from {LEAST_RUN} s to {MOST_RUN} s."
        yield Violation(path, message, "write something between ten minutes and seven days: 24h.")


def _reservation(pool: Pool, provider: Provider, path: str) -> Iterator[Violation]:
    if pool.capacity not in LEGAL_CAPACITY[provider]:
        return
    if pool.capacity.is_reserved and pool.reservation is None:
        message = f"capacity {pool.capacity} needs the reservation to take from."
        yield Violation(f"{path}.reservation", message, "write its name (GKE) or id (EKS, cr-...).")
    if not pool.capacity.is_reserved and pool.reservation is not None:
        # Queued nodes never come out of a reservation: GKE requires NO_RESERVATION of such a pool.
        message = f"capacity {pool.capacity} takes nothing from a reservation."
        yield Violation(f"{path}.reservation", message, "remove it, or write `capacity: reservation`.")
    if not pool.capacity.is_reserved or pool.reservation is None:
        return
    given = pool.reservation
    if provider is Provider.EKS:
        is_id = given.name.startswith("cr-")
        if not is_id and not (given.is_group and pool.capacity is Capacity.RESERVATION):
            message = f"{given.name!r} is no id of a capacity reservation or block."
            fix = "write its id, cr-..., or for `capacity: reservation` the ARN of a resource group of them."
            yield Violation(f"{path}.reservation", message, fix)
        if given.project is not None:
            message = "a reservation of EC2 that another account shares has the same id here."
            yield Violation(f"{path}.reservation.project", message, "remove `project`.")
    if len(pool.zones) != 1 and not given.is_group:
        message = f"{given.name} is in one zone, but the pool has {len(pool.zones) or 'all'}."
        yield Violation(f"{path}.zones", message, "write the zone of the reservation: zones: [...].")


def _unanswered(pool: Pool, cluster: Cluster, path: str) -> Iterator[Violation]:
    """A queued pool without an autoscaler for ProvisioningRequests would wait for ever."""
    if pool.capacity is Capacity.QUEUED and not cluster.answers_requests:
        message = f"autoscaler {cluster.autoscaler} answers no ProvisioningRequest: no node would come."
        yield Violation(f"{path}.capacity", message, "use on-demand, or an autoscaler that answers them.")
