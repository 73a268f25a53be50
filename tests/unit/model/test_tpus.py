"""TPUs are pools like GPUs: quotas in chips, flavors that GKE's labels choose, slices that are one pool."""

from dataclasses import replace
from typing import Any

import pytest

from muster.model.accelerators import accelerators_of
from muster.model.capacity import Capacity
from muster.model.clusters import ExistingCluster
from muster.model.gangpolicy import from_spec
from muster.model.kueue.tree import to_tree
from muster.model.machines import MACHINES
from muster.model.pools import Pool
from muster.model.queues import Allowance, Department
from muster.model.stack import GangMode, Scheduler, Stack
from muster.preview.figures import format_unit
from muster.render import gang, kueue
from muster.validation import check
from muster.validation.machines import tpu_rules
from tests.unit.model.model_stacks import CPU, GKE, L4, gpus, nominal_quotas, specs, team

SLICE = Pool(
    name="slice",
    machine=MACHINES["ct6e-standard-4t"],
    gpus_per_node=4,
    capacity=Capacity.QUEUED,
    max_nodes=4,
    provisioning_class="queued-provisioning.gke.io",
    topology="4x4",
    zones=("us-central1-a",),
)
SINGLE = Pool(
    name="single",
    machine=MACHINES["ct5lp-hightpu-4t"],
    gpus_per_node=4,
    capacity=Capacity.ON_DEMAND,
    max_nodes=3,
    topology="2x2",
)
_QUOTA = Allowance(quota={"slice": gpus(16), "single": gpus(8), "l4": gpus(2)})


def tpu_stack(*, slice_pool: Pool = SLICE) -> Stack:
    research = Department(name="research", teams=(team("team-a", _QUOTA),))
    return Stack(cluster=GKE, pools=(CPU, L4, slice_pool, SINGLE), departments=(research,))


def _errors(stack: Stack) -> list[str]:
    return [
        f"{each.path}: {each.message} {each.fix}"
        for each in check(stack, adjacent={})
        if each.level == "error"
    ]


def test_a_stack_with_tpus_is_a_stack() -> None:
    assert _errors(tpu_stack()) == []


@pytest.mark.parametrize("machine", [each for each in MACHINES.values() if each.is_tpu], ids=lambda m: m.name)
def test_every_topology_of_a_machine_is_whole_nodes(machine: Any) -> None:
    pools = [replace(SLICE, machine=machine, gpus_per_node=machine.gpu_counts[0], topology=None)]
    pools += [replace(pools[0], topology=topology) for topology in machine.topologies]
    chips = [pool.slice_nodes * pool.gpus_per_node for pool in pools[1:]]
    assert pools[1].slice_nodes == 1
    assert chips == sorted(chips)
    assert len(set(machine.topologies)) == len(machine.topologies)


def test_short_names_are_those_of_google() -> None:
    assert accelerators_of("v6e") == accelerators_of("tpu-v6e") == ("tpu-v6e-slice",)
    assert accelerators_of("v5e") == ("tpu-v5-lite-podslice",)


def test_a_flavor_has_the_labels_by_which_gke_chooses_a_slice_and_its_taint() -> None:
    flavors = specs(tpu_stack(), "ResourceFlavor")
    assert (
        flavors["slice"]["nodeLabels"].items()
        >= {
            "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
            "cloud.google.com/gke-tpu-topology": "4x4",
            "muster.dev/pool": "slice",
        }.items()
    )
    assert flavors["slice"]["nodeTaints"] == [
        {"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"}
    ]
    assert flavors["l4"]["nodeTaints"][0]["key"] == "nvidia.com/gpu"
    assert not any("tpu" in label for label in flavors["l4"]["nodeLabels"])


def test_quotas_are_chips_and_every_flavor_covers_both_resources() -> None:
    nominal = nominal_quotas(tpu_stack(), "team-a")
    assert {tuple(each) for each in nominal.values()} == {
        ("cpu", "memory", "nvidia.com/gpu", "google.com/tpu")
    }
    devices = {name: (each["nvidia.com/gpu"], each["google.com/tpu"]) for name, each in nominal.items()}
    assert devices == {"cpu": ("0", "0"), "l4": ("2", "0"), "slice": ("0", "16"), "single": ("0", "8")}


def test_gangs_request_tpus_and_take_whole_slices() -> None:
    spec = gang.policy(tpu_stack())["spec"]
    assert spec["managedResources"] == ["nvidia.com/gpu", "google.com/tpu"]
    policy = from_spec(spec, is_stored=True)
    assert not isinstance(policy, list)
    slice_flavor, single = policy.flavor("slice"), policy.flavor("single")
    assert slice_flavor is not None
    assert single is not None
    assert (slice_flavor.slice_nodes, single.slice_nodes) == (4, 1)
    assert (slice_flavor.gpus_per_node, int(slice_flavor.node["google.com/tpu"])) == (0, 4)


def test_kueues_own_check_requests_tpus_too() -> None:
    stack = tpu_stack()
    stack = replace(stack, gang_admission=replace(stack.gang_admission, mode=GangMode.BUILTIN))
    configs = [each for each in kueue.admission_check(stack) if each["kind"] == "ProvisioningRequestConfig"]
    assert configs
    assert all("google.com/tpu" in each["spec"]["managedResources"] for each in configs)


def test_a_report_counts_chips() -> None:
    stack = tpu_stack()
    holdings = to_tree(stack).nodes["team-a"].holdings
    assert {name: int(each.nominal.gpus) for name, each in holdings.items()} == {
        "cpu": 0,
        "l4": 2,
        "single": 8,
        "slice": 16,
    }
    assert [format_unit(pool) for pool in stack.pools] == ["CPU", "GPU", "TPU chip", "TPU chip"]


@pytest.mark.parametrize(
    ("pool", "expected"),
    [
        (replace(SLICE, topology="3x3"), "comes in no slice of 3x3"),
        (replace(SLICE, topology="2x2x2"), "comes in no slice of 2x2x2"),
        (replace(SLICE, max_nodes=8), "write 4; more slices are more pools"),
        (replace(SLICE, max_nodes=2), "a slice of 4x4 is 4 nodes"),
        (
            replace(SLICE, capacity=Capacity.ON_DEMAND, provisioning_class=None, min_nodes=2),
            "all 4 nodes of a slice come and go at once",
        ),
    ],
    ids=["unknown", "of another machine", "two slices", "half a slice", "half kept"],
)
def test_what_is_no_whole_slice_is_refused(pool: Pool, expected: str) -> None:
    found = [each for each in _errors(tpu_stack(slice_pool=pool)) if each.startswith("muster:pools.slice.")]
    assert any(expected in each for each in found), found


def test_a_slice_without_a_zone_is_made_in_the_one_that_is_known_to_sell_it() -> None:
    pool = replace(SLICE, zones=())
    for cluster in (GKE, replace(GKE, zones=("us-central1-a", "us-central1-b"))):
        (warning,) = tpu_rules(pool, cluster, "muster:pools.slice")
        assert warning.level == "warning"
        assert warning.fix.endswith("zones: [us-central1-b].")
        assert cluster.zones_of(pool) == ("us-central1-b",)
    assert not list(tpu_rules(SLICE, GKE, "muster:pools.slice"))


@pytest.mark.parametrize(
    ("region", "named"), [("us-east5", "one of us-east5-a, us-east5-b"), ("asia-east1", "zones: [...].")]
)
def test_where_several_zones_sell_a_slice_or_none_is_known_its_author_names_one(
    region: str, named: str
) -> None:
    pool, cluster = replace(SLICE, zones=()), replace(GKE, region=region)
    (found,) = tpu_rules(pool, cluster, "muster:pools.slice")
    assert found.level == "error"
    assert named in found.fix
    assert not list(tpu_rules(replace(pool, zones=(f"{region}-c",)), cluster, "muster:pools.slice"))


def test_kai_has_no_tpus() -> None:
    found = _errors(replace(tpu_stack(), scheduler=Scheduler.KAI))
    assert any("no TPU chips" in each and "kueue" in each for each in found)


def test_an_existing_cluster_may_have_tpus() -> None:
    """Its nodes carry GKE's labels already, and nothing is said of zones that Muster does not make."""
    cluster = ExistingCluster(name="theirs", context="theirs")
    pool = replace(SLICE, zones=())
    research = Department(name="research", teams=(team("team-a", Allowance(quota={"slice": gpus(16)})),))
    assert _errors(Stack(cluster=cluster, pools=(CPU, pool), departments=(research,))) == []
