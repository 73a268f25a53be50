"""The local cluster's nodes. Their sizes are chosen so that everything's requests fit 2 cores and 8 GiB."""

from collections.abc import Iterator
from typing import Final

from muster.model.capacity import LEGAL_CAPACITY
from muster.model.machines.machine import Machine
from muster.model.providers import Provider
from muster.model.quantities import GIB, Bytes, Millicores

# name, vCPU, memory in GiB, accelerator.
_ROWS: Final = (
    ("local-cpu", 2, 3, None),
    ("local-l4", 1, 2, "nvidia-l4"),
    ("local-h100", 1, 2, "nvidia-h100-80gb"),
)


def local_machines() -> Iterator[Machine]:
    for name, cpu, gib, accelerator in _ROWS:
        yield Machine(
            name=name,
            provider=Provider.EXISTING,
            cpu=Millicores(cpu * 1000),
            memory=Bytes(gib * GIB),
            accelerator=accelerator,
            gpu_counts=(1,) if accelerator else (),
            bought=frozenset(LEGAL_CAPACITY[Provider.EXISTING]),
        )
