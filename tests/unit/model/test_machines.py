"""The machine table is complete and has no more than a node can give."""

from dataclasses import replace

import pytest

from muster.model.accelerators import ACCELERATORS
from muster.model.clusters import Provider
from muster.model.machines import MACHINES, machines_of, zones_selling
from muster.model.pools import LocalDisks
from muster.model.quantities import GIB, MIB
from tests.unit.model.model_stacks import L4


def test_every_machine_leaves_most_of_itself_to_pods() -> None:
    for machine in MACHINES.values():
        assert 0.5 * machine.memory < machine.allocatable_memory <= machine.memory, machine.name
        assert 0.9 * machine.cpu < machine.allocatable_cpu <= machine.cpu, machine.name


def test_a_machine_has_counts_exactly_when_it_has_an_accelerator() -> None:
    for machine in MACHINES.values():
        assert bool(machine.gpu_counts) == (machine.accelerator is not None), machine.name
        assert machine.accelerator is None or machine.accelerator in ACCELERATORS, machine.name
        assert all(count > 0 for count in machine.gpu_counts), machine.name
        assert machine.unsourced <= machine.bought, machine.name


def test_every_row_of_how_machines_are_sold_has_a_machine() -> None:
    carried = {machine.accelerator for machine in MACHINES.values()}
    only_elsewhere = {name for name in ACCELERATORS if name not in carried}
    assert all(ACCELERATORS[name].resource == "amd.com/gpu" for name in only_elsewhere)


def test_gke_reserves_the_documented_amounts() -> None:
    # e2-standard-4: 60 + 10 + 5 + 5 millicores; 1 + 0.8 + 0.8 GiB and 100 MiB.
    machine = MACHINES["e2-standard-4"]
    assert machine.allocatable_cpu == 4000 - 80
    assert machine.allocatable_memory == 16 * GIB - int(2.6 * GIB) - 100 * MIB


def test_a_cloud_offers_its_own_machines_and_an_existing_cluster_any() -> None:
    assert "g2-standard-4" in machines_of(Provider.GKE)
    assert "g2-standard-4" not in machines_of(Provider.EKS)
    assert set(machines_of(Provider.EXISTING)) == set(MACHINES)


@pytest.mark.parametrize(
    ("name", "cpu", "memory", "carries"),
    [
        # As the clouds' own pages have them: a column that slips in the files would show here.
        ("g6e.12xlarge", 48, 384 * GIB, ("nvidia-l40s", (4,))),
        ("m7g.4xlarge", 16, 64 * GIB, (None, ())),
        ("n1-standard-8", 8, 30 * GIB, ("nvidia-tesla-t4", (1, 2, 4))),
        ("tpu7x-standard-4t", 224, 960 * GIB, ("tpu7x", (4,))),
    ],
)
def test_a_machine_is_read_as_its_cloud_describes_it(
    name: str, cpu: int, memory: int, carries: tuple[str | None, tuple[int, ...]]
) -> None:
    machine = MACHINES[name]
    assert (machine.cpu, machine.memory) == (cpu * 1000, memory)
    assert (machine.accelerator, machine.gpu_counts) == carries


def test_the_longest_series_decides_where_a_machine_is_sold() -> None:
    assert "europe-west8-c" in zones_selling("a3-highgpu-4g") - zones_selling("a3-highgpu-8g")
    assert not zones_selling("e2-standard-4")


@pytest.mark.parametrize(
    ("machine", "disks", "holds"),
    [
        ("a3-highgpu-8g", LocalDisks.EPHEMERAL, "6000Gi"),
        ("p5.48xlarge", LocalDisks.EPHEMERAL, "30400Gi"),
        ("p5.48xlarge", LocalDisks.NONE, "200Gi"),
        ("p6e-gb200.36xlarge", LocalDisks.EPHEMERAL, None),
    ],
)
def test_what_a_pod_may_ask_of_disks_is_what_its_node_has(
    machine: str, disks: LocalDisks, holds: str | None
) -> None:
    pool = replace(L4, machine=MACHINES[machine], local_disks=disks, boot_disk_gib=200)
    assert pool.largest_pod(pool.machine.provider).get("ephemeral-storage") == holds
