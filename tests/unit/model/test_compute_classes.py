"""Pools of GKE as ComputeClasses, and what these cannot do."""

from dataclasses import replace
from typing import Any

import pytest

from muster.model.capacity import Capacity, Gangs, Reservation
from muster.model.clusters import GkeProvisioner, GpuDriver
from muster.model.pools import GpuSharing, LocalDisks, NodeNetwork, Placement, Pool, Sharing
from muster.model.stack import GangAdmission, GangMode, Scheduler, Stack
from muster.model.waiting import BY_PLACEHOLDERS, gang_promise
from muster.render import gang
from muster.render.karpenter import compute_class
from muster.render.kueue.cluster import flavors
from muster.validation import check
from muster.validation.provisioners import gang_word_rules
from tests.unit.model.model_stacks import GKE, pool

CLUSTER = replace(GKE, autoscaler=GkeProvisioner.COMPUTE_CLASSES, zones=("us-central1-a", "us-central1-c"))
ACCOUNT = "nodes@p.iam.gserviceaccount.com"


CPU = pool("cpu", "e2-standard-8", Capacity.ON_DEMAND, labels={"tier": "web"})
L4 = pool("l4", "g2-standard-8", Capacity.SPOT, max_run=3600)
A100 = pool(
    "a100",
    "a2-ultragpu-8g",
    Capacity.RESERVATION,
    reservation=Reservation(name="r1", project="owner"),
    zones=("us-central1-a",),
    local_disks=LocalDisks.EPHEMERAL,
)


def stack(*pools: Pool, **more: Any) -> Stack:
    return Stack(cluster=CLUSTER, pools=(CPU, *pools), departments=(), **more)


def spec(one: Pool) -> dict[str, Any]:
    found: dict[str, Any] = compute_class(one, CLUSTER, service_account=ACCOUNT)["spec"]
    return found


def found(some: Stack) -> dict[str, str]:
    """path -> level, the worst of each."""
    violations = sorted(check(some, adjacent={}), key=lambda each: each.level == "error")
    return {each.path: each.level for each in violations}


def test_a_class_buys_its_one_machine_as_its_pool_says() -> None:
    (rule,) = spec(L4)["priorities"]
    assert rule["machineType"] == "g2-standard-8"
    assert rule["spot"] is True
    assert rule["gpu"] == {"type": "nvidia-l4", "count": 1, "driverVersion": "default"}
    assert rule["location"] == {"zones": ["us-central1-a", "us-central1-c"]}
    assert rule["maxRunDurationSeconds"] == 3600
    assert rule["reservations"] == {"affinity": "None"}, "an open reservation is another's"
    assert "gpu" not in spec(CPU)["priorities"][0]


def test_a_reserved_pool_takes_from_its_own_reservation_in_its_zone() -> None:
    (rule,) = spec(A100)["priorities"]
    specific = [{"name": "r1", "project": "owner", "zones": ["us-central1-a"]}]
    assert rule["reservations"] == {"affinity": "Specific", "specific": specific}
    assert "location" not in rule, "GKE refuses both"
    assert rule["storage"]["localSSDCount"] == A100.machine.local_disks


def test_no_running_node_is_moved_and_no_other_machine_bought() -> None:
    for one in (CPU, L4, A100):
        found = spec(one)
        assert found["whenUnsatisfiable"] == "DoNotScaleUp"
        assert found["activeMigration"] == {"optimizeRulePriority": False}
        assert found["autoscalingPolicy"]["gpuConsolidationThreshold"] == 0
        assert found["autoscalingPolicy"]["consolidationThreshold"] == 0
        assert found["nodePoolConfig"]["nodeLabels"]["muster.dev/pool"] == one.name
        assert found["nodePoolConfig"]["serviceAccount"] == ACCOUNT
    assert spec(CPU)["nodePoolConfig"]["nodeLabels"]["tier"] == "web"


def test_work_selects_the_class_and_tolerates_its_taint() -> None:
    for body in flavors(stack(L4)):
        name = body["metadata"]["name"]
        assert body["spec"]["nodeLabels"]["cloud.google.com/compute-class"] == name
        toleration = {"key": "cloud.google.com/compute-class", "operator": "Exists", "effect": "NoSchedule"}
        assert toleration in body["spec"]["tolerations"]
    for body in flavors(replace(stack(L4), cluster=GKE)):
        assert "cloud.google.com/compute-class" not in body["spec"]["nodeLabels"]


def test_gangs_ask_by_placeholders() -> None:
    some = stack(L4, A100)
    assert some.placeholder_pools == (L4, A100)
    assert gang_promise(some) == BY_PLACEHOLDERS
    classes = {each.name: each.provisioning_class_name for each in gang.gang_policy(some).flavors}
    assert classes == {"cpu": "", "l4": "placeholders.muster.dev", "a100": "placeholders.muster.dev"}


def test_with_kai_nothing_makes_pods_select_the_class_and_placeholders_are_refused() -> None:
    some = replace(stack(L4), scheduler=Scheduler.KAI)
    assert some.placeholder_pools == ()
    assert found(some)["muster:pools.l4"] == "warning"
    asked = replace(some, pools=(CPU, replace(L4, gangs=Gangs.PLACEHOLDERS)))
    (refusal,) = gang_word_rules(asked)
    assert refusal.path == "muster:pools.l4.gangs"
    assert "ComputeClass" in refusal.message


def test_sound_pools_break_no_rule() -> None:
    assert found(stack(L4, A100)) == {}


def test_without_gang_admission_nothing_is_promised() -> None:
    some = stack(L4, gang_admission=GangAdmission(mode=GangMode.OFF))
    assert found(some)["muster:pools.l4"] == "warning"


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"capacity": Capacity.QUEUED, "provisioning_class": "queued-provisioning.gke.io"}, "capacity"),
        ({"min_nodes": 1}, "minNodes"),
        ({"networks": (NodeNetwork(network="n", subnetwork="s"),)}, "networks"),
        ({"sharing": GpuSharing(kind=Sharing.TIME_SLICING, shares=2)}, "sharing"),
        ({"labels": {"cloud.google.com/mine": "x"}}, "labels.cloud.google.com/mine"),
    ],
)
def test_what_a_class_cannot_do_is_refused_there_alone(change: dict[str, Any], path: str) -> None:
    some = stack(replace(L4, **{"max_run": None, **change}))
    assert found(some)[f"muster:pools.l4.{path}"] == "error"
    elsewhere = found(replace(some, cluster=replace(CLUSTER, autoscaler=GkeProvisioner.NODE_POOLS)))
    assert elsewhere.get(f"muster:pools.l4.{path}") != "error"


def test_compact_placement_tpus_and_another_driver_are_refused() -> None:
    compact = replace(A100, placement=Placement.COMPACT)
    assert found(stack(compact))["muster:pools.a100.placement"] == "error"
    tpu = pool("tpu", "ct5lp-hightpu-4t", Capacity.ON_DEMAND, topology="2x2", zones=("us-central1-a",))
    assert found(stack(tpu))["muster:pools.tpu.machine"] == "error"
    driven = replace(CLUSTER, gpu_driver=GpuDriver.INSTALLER)
    assert found(replace(stack(L4), cluster=driven))["muster:cluster.gpuDriver"] == "error"


def test_a_pool_of_several_ways_is_a_rule_for_each_in_their_order() -> None:
    one = replace(A100, fallback=(Capacity.ON_DEMAND, Capacity.SPOT))
    rules = spec(one)["priorities"]
    assert [(each["spot"], each["reservations"]["affinity"]) for each in rules] == [
        (False, "Specific"),
        (False, "None"),
        (True, "None"),
    ]
    assert [each.get("location") for each in rules] == [None, *[{"zones": ["us-central1-a"]}] * 2]
    assert {each["machineType"] for each in rules} == {"a2-ultragpu-8g"}
    assert found(stack(one)).get("muster:pools.a100.capacity") != "error"
