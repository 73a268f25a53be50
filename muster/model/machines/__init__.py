"""The machine types that pools are made of: one table a cloud, each with the pages it was taken from.

    MACHINES               name -> Machine
    machines_of(provider)  those that a pool of this provider may name

Decides sizes, GPUs, disks, network and the ways in which a machine is sold. Leaves what a pool makes of it to
pools.py and rules/machines.py.
"""

from types import MappingProxyType
from typing import Final

from muster.model.machines.eks import eks_machines
from muster.model.machines.gke import gke_machines
from muster.model.machines.local import local_machines
from muster.model.machines.machine import Machine
from muster.model.providers import Provider

__all__ = ["MACHINES", "Machine", "machines_of"]

MACHINES: Final = MappingProxyType(
    {machine.name: machine for machine in (*gke_machines(), *eks_machines(), *local_machines())}
)


def machines_of(provider: Provider) -> dict[str, Machine]:
    """An existing cluster may use the machines of any cloud."""
    if provider is Provider.EXISTING:
        return dict(MACHINES)
    return {name: machine for name, machine in MACHINES.items() if machine.provider is provider}
