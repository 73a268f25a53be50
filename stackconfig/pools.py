"""Reads `muster:pools`.

Decides what a pool's words mean and what is filled in: the accelerator, GPU count, disks and EFA from the
machine table, image and provisioning class from the provider. Leaves what is legal where to the model's
rules.
"""

from types import MappingProxyType

from model.accelerators import ACCELERATORS
from model.capacity import PROVISIONING_CLASSES, Capacity
from model.clusters import Cluster, Provider
from model.machines import Machine, machines_of
from model.pools import Pool
from model.sharing import MIG_PROFILES, GpuSharing, Sharing
from model.violations import suggestion
from stackconfig.kueue import read_pool_kueue
from stackconfig.nodes import read_nodes, read_reservation
from stackconfig.section import Section, told


def read_pool(section: Section, name: str, cluster: Cluster | None) -> Pool | None:
    """One pool, or None after noting why there is none."""
    machine = _machine(section, cluster)
    accelerator = section.text("accelerator")
    gpus = section.integer("gpusPerNode", -1, least=0, most=16)
    capacity = section.choice("capacity", Capacity, Capacity.ON_DEMAND)
    most = section.integer("maxNodes", least=1, most=15_000)
    least = section.integer("minNodes", 0, least=0, most=15_000)
    parameters = _parameters(section.section("parameters"))
    provisioning_class = section.text("provisioningClass")
    reservation = read_reservation(section)
    nodes = read_nodes(section, machine, cluster)
    sharing = _sharing(section, machine)
    kueue = read_pool_kueue(section.section("kueue"))
    section.close()
    if machine is None or capacity is None or most is None:
        return None
    carried = _gpus(section, machine, accelerator, None if gpus == -1 else gpus)
    if carried is None:
        return None
    if provisioning_class is None and capacity is Capacity.QUEUED and cluster is not None:
        provisioning_class = PROVISIONING_CLASSES[cluster.provider][0]
    return Pool(
        name=name,
        machine=machine,
        gpus_per_node=carried,
        capacity=capacity,
        max_nodes=most,
        min_nodes=least or 0,
        provisioning_class=provisioning_class,
        parameters=MappingProxyType(parameters),
        reservation=reservation,
        zones=nodes.zones,
        max_run=nodes.max_run,
        image=nodes.image,
        boot_disk_gib=nodes.boot_disk_gib,
        local_disks=nodes.local_disks,
        placement=nodes.placement,
        efa=nodes.efa,
        networks=nodes.networks,
        labels=nodes.labels,
        sharing=sharing,
        kueue=kueue,
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


def _machine(section: Section, cluster: Cluster | None) -> Machine | None:
    name = section.text("machine", required=True)
    if name is None:
        return None
    known = machines_of(cluster.provider if cluster else Provider.EXISTING)
    if name not in known:
        where = f" of provider {cluster.provider}" if cluster else ""
        section.note(
            "machine",
            f"{name!r} is not in the machine table{where}.",
            suggestion(name, known, noun="machine"),
        )
        return None
    return known[name]


def _gpus(section: Section, machine: Machine, accelerator: str | None, gpus: int | None) -> int | None:
    """GPUs of one node: what the machine carries, or what the stack says where GPUs are attached to it."""
    if accelerator is not None and accelerator not in ACCELERATORS:
        section.note(
            "accelerator",
            f"{accelerator!r} is unknown.",
            suggestion(accelerator, ACCELERATORS, noun="machine"),
        )
        return None
    if accelerator is not None and accelerator != machine.accelerator:
        carried = machine.accelerator or "no GPU"
        fix = (
            f"choose a machine with {accelerator}, or write {carried!r}."
            if machine.accelerator
            else _with(accelerator)
        )
        section.note("accelerator", f"machine {machine.name} carries {carried}, not {accelerator}.", fix)
        return None
    attached = len(machine.gpu_counts) > 1
    if gpus is None:
        if attached and accelerator is not None:
            section.note("gpusPerNode", f"is missing: {machine.name} can carry several.", _counts(machine))
            return None
        return 0 if attached or not machine.gpu_counts else machine.gpu_counts[0]
    # A machine with attached GPUs may also go without any; one with built-in GPUs may not.
    if gpus in machine.gpu_counts or (gpus == 0 and (attached or not machine.gpu_counts)):
        return gpus
    section.note("gpusPerNode", f"machine {machine.name} cannot carry {gpus}.", _counts(machine))
    return None


def _with(accelerator: str) -> str:
    machines = [
        machine.name
        for machine in machines_of(Provider.EXISTING).values()
        if machine.accelerator == accelerator
    ]
    return f"leave `accelerator` out, or choose a machine that carries it: {', '.join(machines)}."


def _counts(machine: Machine) -> str:
    if not machine.gpu_counts:
        return "write 0, or choose a machine with GPUs."
    return f"write one of: {', '.join(str(count) for count in machine.gpu_counts)}."


def _parameters(section: Section) -> dict[str, str]:
    """Parameters of a ProvisioningRequest are texts to the API, numbers included."""
    found: dict[str, str] = {}
    for key, value in section.items():
        if isinstance(value, str | int) and not isinstance(value, bool) and len(str(value)) <= 255:
            found[key] = str(value)
        else:
            fix = "put it in quotes; the API takes at most 255 characters."
            section.note(key, f"must be a text of at most 255 characters, is {told(value)}.", fix)
    return found
