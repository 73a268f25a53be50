"""Reads `node` of a pool: nodes that their owner describes, in place of a machine type.

Responsible for the defaults: a known GPU has the memory of its table. Not responsible for whether the
provider takes such nodes (validation/machines.py).
"""

from typing import Final

from muster.config.section import Section, describe_value
from muster.model.accelerators import ACCELERATORS, Accelerator, accelerators_of, own_accelerator
from muster.model.machines import MOST_GPUS, Machine, own_machine
from muster.model.plural import many
from muster.model.quantities import MIB, Bytes, Millicores, parse_cpu, parse_memory
from muster.model.violations import suggestion
from muster.validation.identity import is_dns_label

EXAMPLE: Final = "node: {cpu: 96, memory: 1Ti, gpus: 8, accelerator: nvidia-h100-80gb}"
_NVIDIA: Final = "nvidia-"
_IN_CPU: Final = "write CPUs or thousandths: 96, 1.5 or 500m."
_IN_MEMORY: Final = "write it with its unit: 512Gi or 1Ti."


def parse_own_node(section: Section) -> Machine | None:
    """The machine that the section describes, or None if it is malformed and was reported."""
    before = len(section.found)
    cpu, memory = _cpu(section), _memory(section, "memory", required=True)
    gpus = section.integer("gpus", 0, least=0, most=MOST_GPUS) or 0
    gpu = _gpu(section, gpus)
    labels = section.texts("labels")
    section.close()
    if cpu is None or memory is None or len(section.found) > before:
        return None
    return own_machine(cpu=cpu, memory=memory, gpus=gpus, gpu=gpu, labels=labels)


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


def _gpu(section: Section, gpus: int) -> Accelerator | None:
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
    if name not in ACCELERATORS and (memory is None or not _is_nvidia(name)):
        _unknown(section, name)
        return None
    return own_accelerator(name, memory // MIB if memory else ACCELERATORS[name].memory_mib)


def _is_nvidia(name: str) -> bool:
    return name.startswith(_NVIDIA) and is_dns_label(name)


def _unknown(section: Section, name: str) -> None:
    """A GPU that no table has is allowed, with the memory that it has: the others are counted alike."""
    known = suggestion(name, ACCELERATORS, noun="accelerator")
    if _is_nvidia(name):
        message = f"{name!r} is unknown, and so is its memory."
        section.note("accelerator", message, f"add its memory, `gpuMemory: 48Gi`; or {known}")
    else:
        message = (
            f"{name!r} is unknown. Muster counts `nvidia.com/gpu`: GPUs of other makers are not counted."
        )
        section.note(
            "accelerator", message, f"{known} Another one is written {_NVIDIA}NAME, with `gpuMemory`."
        )
