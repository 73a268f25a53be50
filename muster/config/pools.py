"""Reads `muster:pools`.

Responsible for the defaults: accelerator, GPU count, disks and EFA come from the machine table or from `node`
(own_node.py), image and provisioning class from the provider. Not responsible for which values are legal
(muster/validation).
"""

from collections.abc import Mapping
from types import MappingProxyType

from muster.config import bounds
from muster.config.nodes import parse_nodes, parse_reservation
from muster.config.own_node import EXAMPLE, parse_own_node
from muster.model import names
from muster.model.capacity import PROVISIONING_CLASSES, Capacity, Gangs
from muster.model.clusters import Cluster, Provider
from muster.model.keys import read
from muster.model.kueue import PoolOptions
from muster.model.machines import Machine, machines_of
from muster.model.pools import Pool
from muster.model.quantities import Quantity
from muster.model.section import Section, describe_value
from muster.model.sharing import MIG_PROFILES, GpuSharing, Sharing
from muster.model.violations import suggestion
from muster.validation.machines import OF_A_MACHINE, Choice, beside_node, gpus_of, made_of


def parse_pool(section: Section, name: str, cluster: Cluster | None) -> Pool | None:
    """One pool, or None if it is malformed and was reported."""
    machine, gpus = _machine(section, cluster.provider if cluster else Provider.EXISTING)
    capacity, *fallback = _capacity(section)
    most = section.integer("maxNodes", **bounds.POOL_NODES)
    least = section.integer("minNodes", 0, **bounds.PERMANENT_NODES)
    parameters = _parameters(section.section("parameters"))
    provisioning_class = section.text("provisioningClass")
    gangs = section.choice("gangs", Gangs) if section.has("gangs") else None
    reservation = parse_reservation(section)
    nodes = parse_nodes(section, machine, cluster)
    sharing = _sharing(section, machine)
    topology = section.text("topology", example="2x4")
    preference = section.integer("preference", 0, **bounds.PREFERENCE)
    resources = _resources(section.section("resources"))
    kueue = read(PoolOptions, section.section("kueue")) or PoolOptions()
    section.close()
    if machine is None or most is None:
        return None
    if provisioning_class is None and capacity is Capacity.QUEUED and cluster is not None:
        provisioning_class = PROVISIONING_CLASSES[cluster.provider][0]
    return Pool(
        name=name,
        machine=machine,
        gpus_per_node=gpus,
        capacity=capacity,
        max_nodes=most,
        min_nodes=least or 0,
        gangs=gangs,
        provisioning_class=provisioning_class,
        parameters=MappingProxyType(parameters),
        reservation=reservation,
        zones=nodes.zones,
        max_run=nodes.max_run,
        image=nodes.image,
        boot_disk_gib=nodes.boot_disk_gib,
        local_disks=nodes.local_disks,
        image_pull=nodes.image_pull,
        placement=nodes.placement,
        placement_group=nodes.placement_group,
        efa=nodes.efa,
        networks=nodes.networks,
        network_profile=nodes.network_profile,
        labels=nodes.labels,
        sharing=sharing,
        topology=topology or next(iter(machine.topologies), None),
        preference=preference or 0,
        resources=resources,
        fallback=tuple(fallback),
        kueue=kueue,
    )


def _capacity(section: Section) -> tuple[Capacity, ...]:
    """One way to buy nodes, or several in the order in which they are tried."""
    if not isinstance(section.get("capacity"), list):
        return (section.choice("capacity", Capacity, Capacity.ON_DEMAND) or Capacity.ON_DEMAND,)
    words = section.words("capacity")
    allowed = [each.value for each in Capacity]
    unknown = [word for word in words if word not in allowed]
    for word in unknown:
        fix = suggestion(word, allowed, noun="capacity")
        section.note("capacity", f"has {word!r}, which is not allowed.", fix)
    if len(set(words)) < len(words):
        section.note("capacity", "names one way to buy nodes twice.", "write each once.")
    return tuple(Capacity(word) for word in words if word not in unknown) or (Capacity.ON_DEMAND,)


def _machine(section: Section, provider: Provider) -> tuple[Machine | None, int]:
    """The pool's machine, None if it is malformed and was reported, and the GPUs of one node."""
    described = section.section("node")
    if section.has("node"):
        name = section.text("machine", example="g2-standard-8") if section.has("machine") else None
        machine = parse_own_node(described, provider, name or "")
        found = beside_node(section.path, provider, name, {key for key in OF_A_MACHINE if section.has(key)})
        section.found.extend(found)
        for key in OF_A_MACHINE:
            section.get(key)
        return (None, 0) if machine is None or found else (machine, sum(machine.gpu_counts))
    choice = _choice(section, provider)
    wrong = made_of(choice, section.path) if choice.machine else []
    section.found.extend(wrong)
    if not choice.machine or wrong:
        return None, 0
    return machines_of(provider)[choice.machine], gpus_of(choice)


def _choice(section: Section, provider: Provider) -> Choice:
    """The machine, accelerator and GPU count that the pool names. `machine` is "" when it is missing."""
    gpus = section.integer("gpusPerNode", -1, **bounds.GPUS_PER_NODE)
    example = min(name for name, each in machines_of(provider).items() if each.accelerator == "nvidia-l4")
    may_describe = provider is Provider.EXISTING and not section.has("machine")
    if may_describe:
        fix = f"describe the nodes, `{EXAMPLE}`, or write `machine:` and a cloud's machine type."
        section.note("machine", "is missing.", fix)
    return Choice(
        provider=provider,
        machine=section.text("machine", required=not may_describe, example=example) or "",
        accelerator=section.text("accelerator", example="nvidia-l4"),
        gpus=None if gpus == -1 else gpus,
    )


def _sharing(section: Section, machine: Machine | None) -> GpuSharing:
    """How a GPU is shared; the number of MIG instances follows from the profile."""
    kind = section.choice("sharing", Sharing, Sharing.NONE) or Sharing.NONE
    shares = section.integer("shares", 1, least=1)
    profile = section.text("migProfile")
    if kind is Sharing.MIG:
        if section.has("shares"):
            section.note("shares", "follows from the MIG profile.", "remove it.")
        profiles = MIG_PROFILES.get((machine.accelerator if machine else None) or "", {})
        shares = profiles.get(profile or "", 1)
    return GpuSharing(kind=kind, shares=shares or 1, profile=profile)


def _resources(section: Section) -> Mapping[str, Quantity]:
    """Extended resources and huge pages: what else a node has, its other keys say."""
    found: dict[str, Quantity] = {}
    for name, value in section.items():
        amount = None if value is None else section.quantity(name)
        if name in names.DEVICE_RESOURCES or not ("/" in name or name.startswith("hugepages-")):
            fix = "write the name of an extended resource, such as rdma/ib, or remove it."
            section.note(name, "is not a resource that only the nodes' owner knows of.", fix)
        elif amount is not None and not amount.value:
            section.note(name, "is 0.", "write what one node has, or remove it.")
        elif amount is not None:
            found[name] = amount
    return MappingProxyType(dict(sorted(found.items())))


def _parameters(section: Section) -> dict[str, str]:
    """The API's parameters of a ProvisioningRequest are strings; numbers are converted."""
    found: dict[str, str] = {}
    for key, value in section.items():
        if isinstance(value, str | int) and not isinstance(value, bool) and len(str(value)) <= 255:
            found[key] = str(value)
        else:
            fix = "put it in quotes; the API takes at most 255 characters."
            section.note(key, f"must be a text of at most 255 characters, is {describe_value(value)}.", fix)
    return found
