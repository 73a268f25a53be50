"""Nodes that their owner describes: a data centre, or a cloud whose machines no table has."""

from collections.abc import Mapping
from typing import Final

from muster.model.accelerators import Accelerator
from muster.model.capacity import LEGAL_CAPACITY
from muster.model.machines.machine import Machine
from muster.model.providers import Provider
from muster.model.quantities import Bytes, Millicores, format_cpu, format_memory

MOST_GPUS: Final = 64


def own_machine(
    *, cpu: Millicores, memory: Bytes, gpus: int, gpu: Accelerator | None, labels: Mapping[str, str]
) -> Machine:
    """`cpu` and `memory` are what pods can request on one node. `gpu` is set exactly where `gpus` is not 0.

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
