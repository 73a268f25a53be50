"""Reads `node` of a pool: what one node has. In an existing cluster it stands in place of a machine type, on
GKE and EKS beside one that no table has.

Responsible for the defaults: a known accelerator has the memory of its table.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from muster.model import names
from muster.model.accelerators import (
    ACCELERATORS,
    Accelerator,
    accelerators_of,
    own_accelerator,
    vendor_resource,
)
from muster.model.machines import AMD64, ARM64, MOST_GPUS, Machine, cloud_machine, own_machine
from muster.model.quantities import MIB, Bytes, Millicores, many, parse_cpu, parse_memory
from muster.model.regions import Provider
from muster.model.section import Section, describe_value
from muster.model.violations import suggestion
from muster.validation.identities import is_dns_label

EXAMPLE: Final = "node: {cpu: 96, memory: 1Ti, gpus: 8, accelerator: nvidia-h100-80gb}"
# Muster makes nodes with these on the cloud. TPUs come in slices, which `machine` and `topology` describe.
_MADE: Final = {
    Provider.GKE: (names.GPU_RESOURCE,),
    Provider.EKS: (names.GPU_RESOURCE, names.NEURON_RESOURCE),
    Provider.EXISTING: (names.GPU_RESOURCE, names.AMD_RESOURCE, names.NEURON_RESOURCE),
}
_MOST_DISKS: Final = 64


class Architecture(StrEnum):
    """Of a CPU, as Kubernetes names it."""

    AMD64 = AMD64
    ARM64 = ARM64


_IN_CPU: Final = "write CPUs or thousandths: 96, 1.5 or 500m."
_IN_MEMORY: Final = "write it with its unit: 512Gi or 1Ti."


def parse_own_node(section: Section, provider: Provider, name: str) -> Machine | None:
    """The machine that the section describes, or None if it is malformed and was reported. `name`: the
    machine type, "" in an existing cluster.
    """
    before = len(section.found)
    cpu, memory = _cpu(section), _memory(section, "memory", required=True)
    gpus = section.integer("gpus", 0, least=0, most=MOST_GPUS) or 0
    gpu = _gpu(section, gpus, provider)
    labels = section.texts("labels")
    disks = section.integer("localDisks", 0, most=_MOST_DISKS) or 0
    efa = section.integer("efa", 0, most=_MOST_DISKS) or 0
    architecture = section.choice("architecture", Architecture, Architecture.AMD64) or Architecture.AMD64
    _refuse(section, provider, {"localDisks": disks, "efa": efa, "architecture": architecture}, labels)
    section.close()
    if cpu is None or memory is None or len(section.found) > before:
        return None
    if provider is Provider.EXISTING:
        return own_machine(cpu=cpu, memory=memory, gpus=gpus, gpu=gpu, labels=labels)
    return cloud_machine(
        name,
        provider,
        cpu=cpu,
        memory=memory,
        gpus=gpus,
        gpu=gpu,
        local_disks=disks,
        efa=efa,
        architecture=architecture.value,
    )


def _refuse(section: Section, provider: Provider, made: Mapping[str, object], labels: object) -> None:
    """Keys that mean nothing on this provider. `made`: those of nodes that Muster makes."""
    if provider is not Provider.EXISTING:
        if labels:
            fix = "write them as `labels` of the pool."
            section.note("labels", "are those of nodes that exist already.", fix)
        if made["efa"] and provider is not Provider.EKS:
            section.note("efa", "EFA is EC2's.", "remove it.")
        return
    for key, value in made.items():
        if value not in (0, Architecture.AMD64):
            section.note(key, "Muster does not make the nodes of an existing cluster.", "remove it.")


def _cpu(section: Section) -> Millicores | None:
    value = section.get("cpu")
    if value is None:
        section.note("cpu", "is missing: the CPUs that pods can request on one node.", _IN_CPU)
        return None
    try:
        cpu = parse_cpu(_scalar(value))
    except ValueError as error:
        section.note("cpu", f"must be an amount of CPU: {error}.", _IN_CPU)
        return None
    if not cpu:
        section.note("cpu", "is 0: no pod runs there.", _IN_CPU)
    return cpu


def _memory(section: Section, key: str, *, required: bool = False) -> Bytes | None:
    """At least a MiB: less is a number without its unit."""
    value = section.get(key)
    if value is None:
        if required:
            message = "is missing: the memory that pods can request on one node."
            section.note(key, message, _IN_MEMORY)
        return None
    try:
        size = parse_memory(_scalar(value))
    except ValueError as error:
        section.note(key, f"must be an amount of memory: {error}.", _IN_MEMORY)
        return None
    if size < MIB:
        section.note(key, f"is {describe_value(value)}, which is {size} bytes.", _IN_MEMORY)
        return None
    return size


def _scalar(value: object) -> str:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return str(value)
    raise ValueError(f"{describe_value(value)} is not a number")


def _gpu(section: Section, gpus: int, provider: Provider) -> Accelerator | None:
    """The GPU of a node with GPUs."""
    written, memory = section.text("accelerator", example="nvidia-l4"), _memory(section, "gpuMemory")
    if not gpus:
        for key in ("accelerator", "gpuMemory"):
            if section.has(key):
                section.note(
                    key, "is written, but the node has no `gpus`.", f"write `gpus: 8`, or remove `{key}`."
                )
        return None
    if not section.has("accelerator"):
        section.note(
            "accelerator", f"is missing: a node has {many(gpus, 'GPU')}.", "write it like nvidia-h100-80gb."
        )
    if written is None:
        return None
    name, *_ = accelerators_of(written) or (written,)
    if name in ACCELERATORS and ACCELERATORS[name].is_tpu:
        message = "TPUs are nodes of GKE, which `machine` and `topology` describe."
        section.note("accelerator", message, "write `machine: ct6e-standard-4t` in place of `node`.")
        return None
    resource = ACCELERATORS[name].resource if name in ACCELERATORS else _unknown_resource(name)
    if not resource or (name not in ACCELERATORS and memory is None):
        _unknown(section, name, provider)
        return None
    if resource not in _MADE[provider]:
        message = f"Muster makes no nodes with {resource} on provider {provider}."
        section.note("accelerator", message, "use `provider: existing` for a cluster that has such nodes.")
        return None
    return own_accelerator(name, memory // MIB if memory else ACCELERATORS[name].memory_mib)


def _unknown_resource(name: str) -> str:
    return vendor_resource(name) if is_dns_label(name) else ""


def _unknown(section: Section, name: str, provider: Provider) -> None:
    """A GPU that no table has is allowed, with the memory that it has: its vendor's others are counted
    alike.
    """
    choices = [each.name for each in ACCELERATORS.values() if each.resource in _MADE[provider]]
    known = suggestion(name, choices, noun="accelerator")
    if _unknown_resource(name):
        message = f"{name!r} is unknown, and so is its memory."
        section.note("accelerator", message, f"add its memory, `gpuMemory: 48Gi`; or {known}")
    else:
        message = f"{name!r} is unknown, and so is the resource that its nodes advertise."
        fix = f"{known} Another one is written nvidia-NAME or amd-NAME, with `gpuMemory`."
        section.note("accelerator", message, fix)
