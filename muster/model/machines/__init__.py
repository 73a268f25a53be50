"""The machine types of pools: tables of the clouds' machines (*.csv, *.toml), with their sources.

    MACHINES               name -> Machine
    machines_of(provider)  those that a pool of this provider may name
    own_machine(...)       a node that its owner describes
    cloud_machine(...)     a cloud's machine that no table has
    chips_of(topology)     the TPU chips of a slice

Responsible for sizes, GPUs, disks, network and capacity types of a machine. Not responsible for how a pool
uses it (pools.py, validation/machines.py).
"""

from types import MappingProxyType
from typing import Final

from muster.model.machines.clouds import eks_machines, gke_machines
from muster.model.machines.local import local_machines
from muster.model.machines.machine import AMD64, ARM64, Machine
from muster.model.machines.own import MOST_GPUS, cloud_machine, own_machine
from muster.model.machines.tpus import chips_of, tpu_machines
from muster.model.providers import Provider

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
]

MACHINES: Final = MappingProxyType(
    {
        machine.name: machine
        for machine in (*gke_machines(), *tpu_machines(), *eks_machines(), *local_machines())
    }
)


def machines_of(provider: Provider) -> dict[str, Machine]:
    """An existing cluster may use the machines of any cloud."""
    if provider is Provider.EXISTING:
        return dict(MACHINES)
    return {name: machine for name, machine in MACHINES.items() if machine.provider is provider}
