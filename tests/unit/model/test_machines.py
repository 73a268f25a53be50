"""The machine table is complete and has no more than a node can give."""

import pytest

from muster.model.accelerators import ACCELERATORS
from muster.model.clusters import Provider
from muster.model.machines import MACHINES, Machine, machines_of
from muster.model.quantities import GIB


@pytest.mark.parametrize("machine", MACHINES.values(), ids=lambda machine: machine.name)
def test_every_machine_leaves_most_of_itself_to_pods(machine: Machine) -> None:
    assert 0.5 * machine.memory < machine.allocatable_memory <= machine.memory
    assert 0.9 * machine.cpu < machine.allocatable_cpu <= machine.cpu


@pytest.mark.parametrize("machine", MACHINES.values(), ids=lambda machine: machine.name)
def test_a_machine_has_gpu_counts_exactly_when_it_has_an_accelerator(machine: Machine) -> None:
    assert bool(machine.gpu_counts) == (machine.accelerator is not None)
    assert machine.accelerator is None or machine.accelerator in ACCELERATORS
    assert all(count > 0 for count in machine.gpu_counts)


def test_gke_reserves_the_documented_amounts() -> None:
    # e2-standard-4: 60 + 10 + 5 + 5 millicores; 1 + 0.8 + 0.8 GiB and 100 MiB.
    machine = MACHINES["e2-standard-4"]
    assert machine.allocatable_cpu == 4000 - 80
    assert machine.allocatable_memory == 16 * GIB - int(2.6 * GIB) - 100 * 2**20


def test_local_machines_give_exactly_their_size_because_the_plane_sets_allocatable() -> None:
    sizes = {
        name: (machine.allocatable_cpu, machine.allocatable_memory // GIB, machine.gpu_counts)
        for name, machine in MACHINES.items()
        if machine.provider is Provider.EXISTING
    }
    assert sizes == {"local-cpu": (2000, 3, ()), "local-l4": (1000, 2, (1,)), "local-h100": (1000, 2, (1,))}


def test_a_cloud_offers_its_own_machines_and_an_existing_cluster_any() -> None:
    assert "g2-standard-4" in machines_of(Provider.GKE)
    assert "g2-standard-4" not in machines_of(Provider.EKS)
    assert set(machines_of(Provider.EXISTING)) == set(MACHINES)


@pytest.mark.parametrize(
    ("provider", "families"),
    [
        (
            Provider.GKE,
            {
                "nvidia-tesla-t4",
                "nvidia-l4",
                "nvidia-tesla-a100",
                "nvidia-h100-80gb",
                "nvidia-h200-141gb",
                "nvidia-b200",
            },
        ),
        (Provider.EKS, {"g4dn", "g5", "g6", "p4d", "p5", "p5e", "p5en", "p6-b200"}),
    ],
)
def test_every_promised_gpu_is_in_the_table(provider: Provider, families: set[str]) -> None:
    machines = machines_of(provider).values()
    offered = {machine.accelerator for machine in machines} | {
        machine.name.split(".")[0] for machine in machines
    }
    assert families <= offered
