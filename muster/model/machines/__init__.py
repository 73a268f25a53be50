"""The machine types of pools: tables of the clouds' machines (*.csv, *.toml), with their sources.

    MACHINES               name -> Machine
    machines_of(provider)  those that a pool of this provider may name
    similar_machines(...)  those that a mistyped name may mean
    own_machine(...)       a node that its owner describes
    cloud_machine(...)     a cloud's machine that no table has
    chips_of(topology)     the TPU chips of a slice

Responsible for sizes, GPUs, disks, network and capacity types of a machine.
"""

from collections.abc import Mapping
from typing import Final

from muster.model.machines.clouds import chips_of, eks_machines, gke_machines, tpu_machines
from muster.model.machines.machine import (
    AMD64,
    ARM64,
    MOST_GPUS,
    Machine,
    cloud_machine,
    local_machines,
    own_machine,
)
from muster.model.nearest import meant
from muster.model.regions import LazyTable, Provider

__all__ = [
    "AMD64",
    "ARM64",
    "MACHINES",
    "MOST_GPUS",
    "Machine",
    "chips_of",
    "cloud_machine",
    "machines_of",
    "own_machine",
    "similar_machines",
]


def _machines() -> dict[str, Machine]:
    every = (*gke_machines(), *tpu_machines(), *eks_machines(), *local_machines())
    return {machine.name: machine for machine in every}


MACHINES: Final = LazyTable(_machines)


def machines_of(provider: Provider) -> dict[str, Machine]:
    """An existing cluster may use the machines of any cloud."""
    if provider is Provider.EXISTING:
        return dict(MACHINES)
    return {name: machine for name, machine in MACHINES.items() if machine.provider is provider}


def similar_machines(word: str, known: Mapping[str, Machine]) -> list[str]:
    """The machines that a mistyped name may mean: those of its own series where they all carry the same
    accelerator, otherwise the CPU machines that are nearly written so. Another series is other hardware,
    however alike its letters are.
    """
    mark = "." if "." in word else "-"
    series = word.partition(mark)[0] if mark == "." else word.rpartition(mark)[0]
    for start in (series, word.partition(mark)[0]):
        same = [name for name in known if start and name.startswith(f"{start}{mark}")]
        if same and len({known[name].accelerator for name in same}) == 1:
            return same
    plain = [name for name, machine in known.items() if machine.accelerator is None]
    return plain if meant(word, plain, noun="machine")[0] is not None else []
