"""Reads `node` of a pool: what one node has. In an existing cluster it stands in place of a machine type, on
GKE and EKS beside one that no table has.

Responsible for the defaults: a known accelerator has the memory of its table.
"""

from collections.abc import Mapping
from dataclasses import dataclass
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
from muster.model.keys import declared, read_part
from muster.model.machines import AMD64, ARM64, MOST_GPUS, Machine, cloud_machine, own_machine
from muster.model.quantities import MIB, QUANTITY_PATTERN, Bytes, Millicores, many, parse_cpu, parse_memory
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


_AMOUNT: Final = {"type": ["number", "string"], "minimum": 0, "pattern": QUANTITY_PATTERN}


class Architecture(StrEnum):
    """Of a CPU, as Kubernetes names it."""

    AMD64 = AMD64
    ARM64 = ARM64


_IN_CPU: Final = "write CPUs or thousandths: 96, 1.5 or 500m."
_IN_MEMORY: Final = "write it with its unit: 512Gi or 1Ti."


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnNode:
    """`cpu` and `memory` are None where they are malformed, which was reported."""

    cpu: Millicores | None = declared(
        "The CPUs that pods can request on one node; on GKE and EKS the machine's vCPUs.",
        example=96,
        read=lambda section, _: _cpu(section),
        schema=_AMOUNT,
    )
    memory: Bytes | None = declared(
        "The memory that pods can request on one node; on GKE and EKS the machine's memory.",
        example="1Ti",
        read=lambda section, key: _memory(section, key, required=True),
        schema=_AMOUNT,
    )
    gpus: int = declared("The GPUs of one node, or its Neuron devices.", 0, example=8, maximum=MOST_GPUS)
    accelerator: str | None = declared(
        "The GPU: one that Muster knows, or nvidia-NAME or amd-NAME with `gpuMemory`.",
        None,
        default_text="no GPU",
        example="nvidia-h100-80gb",
        read=lambda section, key: section.text(key, example="nvidia-l4"),
        schema={"type": "string", "minLength": 1},
    )
    gpu_memory: Bytes | None = declared(
        "The memory of one GPU.",
        None,
        default_text="that of the accelerator",
        example="80Gi",
        read=lambda section, key: _memory(section, key),
        schema=_AMOUNT,
    )
    local_disks: int = declared(
        "The machine's local disks (GKE, EKS); on EKS 1 for any number.", 0, example=8, maximum=_MOST_DISKS
    )
    efa: int = declared("The machine's EFA interfaces (EKS).", 0, example=8, maximum=_MOST_DISKS)
    architecture: Architecture = declared(
        "The architecture of the machine's CPU (GKE, EKS).", Architecture.AMD64, example=ARM64
    )
    labels: Mapping[str, str] = declared(
        "Labels that the nodes have already, besides muster.dev/pool; the pool's ResourceFlavor selects "
        "them.",
        {},
        default_text="none",
        example={"example.com/fabric": "infiniband"},
    )


def parse_own_node(section: Section, provider: Provider, name: str) -> Machine | None:
    """The machine that the section describes, or None if it is malformed and was reported. `name`: the
    machine type, "" in an existing cluster.
    """
    before = len(section.found)
    node = read_part(OwnNode, section)
    gpu = _gpu(section, node, provider)
    _refuse(section, provider, node)
    section.close()
    if node.cpu is None or node.memory is None or len(section.found) > before:
        return None
    if provider is Provider.EXISTING:
        return own_machine(cpu=node.cpu, memory=node.memory, gpus=node.gpus, gpu=gpu, labels=node.labels)
    return cloud_machine(
        name,
        provider,
        cpu=node.cpu,
        memory=node.memory,
        gpus=node.gpus,
        gpu=gpu,
        local_disks=node.local_disks,
        efa=node.efa,
        architecture=node.architecture.value,
    )


def _refuse(section: Section, provider: Provider, node: OwnNode) -> None:
    """Keys that mean nothing on this provider."""
    if provider is not Provider.EXISTING:
        if node.labels:
            fix = "write them as `labels` of the pool."
            section.note("labels", "are those of nodes that exist already.", fix)
        if node.efa and provider is not Provider.EKS:
            section.note("efa", "EFA is EC2's.", "remove it.")
        return
    made = {"localDisks": node.local_disks, "efa": node.efa, "architecture": node.architecture}
    for key, value in made.items():
        if value not in (0, Architecture.AMD64):
            section.note(key, "Muster does not make the nodes of an existing cluster.", "remove it.")


def _cpu(section: Section) -> Millicores | None:
    if section.get("cpu") is None:
        section.note("cpu", "is missing: the CPUs that pods can request on one node.", _IN_CPU)
    cpu = section.parsed("cpu", parse_cpu, noun="an amount of CPU", fix=_IN_CPU)
    if cpu == 0:
        section.note("cpu", "is 0: no pod runs there.", _IN_CPU)
    return cpu


def _memory(section: Section, key: str, *, required: bool = False) -> Bytes | None:
    """At least a MiB: less is a number without its unit."""
    value = section.get(key)
    if value is None and required:
        message = "is missing: the memory that pods can request on one node."
        section.note(key, message, _IN_MEMORY)
    size = section.parsed(key, parse_memory, noun="an amount of memory", fix=_IN_MEMORY)
    if size is None or size >= MIB:
        return size
    section.note(key, f"is {describe_value(value)}, which is {size} bytes.", _IN_MEMORY)
    return None


def _gpu(section: Section, node: OwnNode, provider: Provider) -> Accelerator | None:
    gpus, written, memory = node.gpus, node.accelerator, node.gpu_memory
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
