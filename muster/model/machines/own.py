"""Machines that a stack describes: nodes of a data centre, or a cloud's machine that no table has."""

from collections.abc import Mapping
from typing import Final

from muster.model.accelerators import Accelerator
from muster.model.capacity import LEGAL_CAPACITY
from muster.model.machines.machine import Machine
from muster.model.providers import Provider
from muster.model.quantities import Bytes, Millicores, format_cpu, format_memory

MOST_GPUS: Final = 64


def cloud_machine(
    name: str,
    provider: Provider,
    *,
    cpu: Millicores,
    memory: Bytes,
    gpus: int,
    gpu: Accelerator | None,
    local_disks: int,
    efa: int,
    architecture: str,
) -> Machine:
    """A machine type of a cloud with the figures that the stack gives. `cpu` and `memory` are the machine's:
    what its node keeps for itself comes off them as for a machine of the table. How it is sold is not judged.
    """
    return Machine(
        name=name,
        provider=provider,
        cpu=cpu,
        memory=memory,
        accelerator=gpu.name if gpu else None,
        gpu_counts=(gpus,) if gpu else (),
        bought=frozenset(LEGAL_CAPACITY[provider]),
        local_disks=local_disks,
        efa=efa,
        compact=True,
        architecture=architecture,
        is_own=True,
        gpu=gpu,
    )


def own_machine(
    *, cpu: Millicores, memory: Bytes, gpus: int, gpu: Accelerator | None, labels: Mapping[str, str]
) -> Machine:
    """A node of an existing cluster. `cpu` and `memory` are what pods can request on it. `gpu` is set exactly
    where `gpus` is not 0.

    Its name is the description that reports show in place of a machine type.
    """
    size = f"{format_cpu(cpu)} CPU, {format_memory(memory)}"
    return Machine(
        name=f"{gpus} {gpu.name}, {size}" if gpu else size,
        provider=Provider.EXISTING,
        cpu=cpu,
        memory=memory,
        accelerator=gpu.name if gpu else None,
        gpu_counts=(gpus,) if gpu else (),
        bought=frozenset(LEGAL_CAPACITY[Provider.EXISTING]),
        is_own=True,
        gpu=gpu,
        labels=labels,
    )
