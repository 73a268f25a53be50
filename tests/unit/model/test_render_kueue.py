"""The rendered queues match the stack."""

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.model import names
from muster.model.pools import Capacity, Pool
from muster.model.quantities import parse_quantity
from muster.model.queues import Allowance, Bound, Department, Limit
from muster.model.stack import GangAdmission, GangMode, Stack
from muster.render import gang, kueue
from tests.unit.model.model_stacks import CPU, GKE, H100, L4, gpus, specs, stack, stacks, team, two_teams

Columns = dict[str, dict[str, dict[str, str]]]


def queue(some: Stack, name: str) -> dict[str, Any]:
    return specs(some, "ClusterQueue")[name]


def columns(spec: dict[str, Any]) -> Columns:
    """flavor -> resource -> quota, borrowing and lending limit."""
    (group,) = spec["resourceGroups"]
    return {
        flavor["name"]: {
            resource["name"]: {key: value for key, value in resource.items() if key != "name"}
            for resource in flavor["resources"]
        }
        for flavor in group["flavors"]
    }


def test_one_group_covers_cpu_memory_and_gpu_with_the_cpu_pool_first_and_without_gpus() -> None:
    spec = queue(two_teams(Allowance(quota={"h100": gpus(8), "l4": gpus(2)})), "team-a")
    (group,) = spec["resourceGroups"]
    assert group["coveredResources"] == ["cpu", "memory", "nvidia.com/gpu"]
    assert [flavor["name"] for flavor in group["flavors"]] == ["cpu", "l4", "h100"]
    assert columns(spec)["cpu"]["nvidia.com/gpu"]["nominalQuota"] == "0"


@given(stacks())
def test_every_flavor_has_the_covered_resources_in_their_order(some: Stack) -> None:
    """Kueue refuses a flavor whose resources are not the group's, one by one."""
    for _, member in some.owners():
        for group in queue(some, member.name)["resourceGroups"]:
            for flavor in group["flavors"]:
                assert [resource["name"] for resource in flavor["resources"]] == group["coveredResources"]


def test_gpu_flavors_do_not_tolerate_their_taint_so_that_a_cpu_head_never_lands_on_one() -> None:
    by_name = specs(stack(), "ResourceFlavor")
    assert by_name["cpu"].keys() == {"nodeLabels"}
    for name in ("l4", "h100"):
        assert by_name[name].pop("nodeLabels")["muster.dev/pool"] == name
        assert by_name[name] == {
            "nodeTaints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}],
            # GKE's own taint of queued nodes, which no CPU head would stop at either.
            "tolerations": [
                {"key": "cloud.google.com/gke-queued", "operator": "Exists", "effect": "NoSchedule"}
            ],
        }


def test_gpus_are_borrowed_only_where_it_is_written_and_free_cpu_always() -> None:
    spec = columns(
        queue(two_teams(Allowance(quota={"l4": gpus(2)}, borrow=Limit(pools={"h100": gpus(8)}))), "team-a")
    )
    assert "borrowingLimit" not in spec["cpu"]["cpu"]
    assert spec["l4"]["nvidia.com/gpu"] == {"nominalQuota": "2", "borrowingLimit": "0"}
    assert spec["h100"]["nvidia.com/gpu"] == {"nominalQuota": "0", "borrowingLimit": "8"}
    assert parse_quantity(spec["h100"]["cpu"]["borrowingLimit"]) > 0


def test_borrow_all_has_no_limit_and_lend_none_gives_nothing() -> None:
    allowance = Allowance(
        quota={"l4": gpus(2)}, borrow=Limit(otherwise=Bound.ALL), lend=Limit(otherwise=Bound.NONE)
    )
    spec = columns(queue(two_teams(allowance), "team-a"))
    assert spec["l4"]["nvidia.com/gpu"] == {"nominalQuota": "2", "lendingLimit": "0"}
    assert spec["l4"]["memory"]["lendingLimit"] == "0"
    assert {*spec} == {"cpu", "l4", "h100"}, "what may be borrowed without limit is a flavor of the queue"


def test_a_pool_without_quota_or_borrowing_is_no_flavor_of_the_queue() -> None:
    assert set(columns(queue(two_teams(Allowance(quota={"l4": gpus(1)})), "team-a"))) == {"cpu", "l4"}
    never = Allowance(quota={"l4": gpus(1)}, borrow=Limit(pools={"h100": Bound.NONE}))
    assert set(columns(queue(two_teams(never), "team-a"))) == {"cpu", "l4"}


@given(stacks())
def test_no_queue_lends_more_than_it_has(some: Stack) -> None:
    for _, member in some.owners():
        spec = queue(some, member.name)
        if not spec["resourceGroups"]:
            continue
        for resources in columns(spec).values():
            for amounts in resources.values():
                lent = parse_quantity(amounts.get("lendingLimit", "0"))
                assert lent <= parse_quantity(amounts["nominalQuota"])


def test_only_queued_pools_of_the_queue_have_the_check() -> None:
    fixed = replace(L4, name="fixed", capacity=Capacity.ON_DEMAND, provisioning_class=None)
    some = stack(
        Department(
            name="research",
            teams=(team("team-a", Allowance(quota={"l4": gpus(1), "fixed": gpus(1)})), team("team-c")),
        ),
        pools=(CPU, L4, fixed, H100),
    )
    checks = queue(some, "team-a")["admissionChecksStrategy"]["admissionChecks"]
    assert checks == [{"name": "gang", "onFlavors": ["l4"]}]
    assert "admissionChecksStrategy" not in queue(some, "team-c")


def test_every_check_that_a_queue_names_is_rendered() -> None:
    other = replace(H100, provisioning_class=names.BEST_EFFORT_ATOMIC_CLASS, parameters={"a": "b"})
    base = stack(
        Department(
            name="research", teams=(team("team-a", Allowance(quota={"l4": gpus(1), "h100": gpus(8)})),)
        ),
        pools=(CPU, L4, other),
    )
    for mode in GangMode:
        some = replace(base, gang_admission=GangAdmission(mode=mode))
        objects = kueue.admission_check(some)
        defined = {item["metadata"]["name"] for item in objects if item["kind"] == "AdmissionCheck"}
        strategy = queue(some, "team-a").get("admissionChecksStrategy", {"admissionChecks": []})
        assert {check["name"] for check in strategy["admissionChecks"]} == defined
        assert len(defined) == {GangMode.OFF: 0, GangMode.MUSTER: 1, GangMode.BUILTIN: 2}[mode]
        for check in (item for item in objects if item["kind"] == "AdmissionCheck"):
            assert check["spec"]["controllerName"] == (
                names.CONTROLLER_NAME if mode is GangMode.MUSTER else names.BUILTIN_CONTROLLER_NAME
            )


def test_no_check_name_is_shared_between_ours_and_kueues() -> None:
    """controllerName is immutable: a shared name would make a stack unable to switch."""
    base = two_teams(Allowance())
    built_in = replace(base, gang_admission=GangAdmission(mode=GangMode.BUILTIN))
    ours = {item["metadata"]["name"] for item in kueue.admission_check(base)}
    assert ours.isdisjoint(item["metadata"]["name"] for item in kueue.admission_check(built_in))


def test_departments_nest_as_cohorts_and_parents_come_first() -> None:
    some = stack(
        Department(name="company", departments=(Department(name="research", teams=(team("team-a"),)),))
    )
    found = kueue.cohorts(some)
    assert [item["metadata"]["name"] for item in found] == ["company", "research"]
    assert "parentName" not in found[0]["spec"]
    assert found[1]["spec"]["parentName"] == "company"
    assert queue(some, "team-a")["cohortName"] == "research"


def test_a_departments_quota_is_a_pot_and_its_limits_bound_what_passes_it() -> None:
    pot = Allowance(quota={"l4": gpus(2)}, borrow=Limit(pools={"h100": gpus(8)}))
    inner = Department(name="research", allowance=pot, teams=(team("team-a"),))
    (_, cohort) = kueue.cohorts(stack(Department(name="company", departments=(inner,))))
    spec = columns(cohort["spec"])
    assert spec["l4"]["nvidia.com/gpu"] == {"nominalQuota": "2"}
    assert spec["h100"]["nvidia.com/gpu"] == {"nominalQuota": "0", "borrowingLimit": "8"}
    assert "cpu" not in spec


def test_prod_preempts_dev_and_an_owner_reclaims_its_quota() -> None:
    assert queue(two_teams(Allowance()), "team-a")["preemption"] == {
        "withinClusterQueue": "LowerPriority",
        "reclaimWithinCohort": "Any",
    }


def test_any_weight_enables_fair_sharing_for_all_queues() -> None:
    plain, weighted = two_teams(Allowance()), two_teams(Allowance(weight=2))
    assert "fairSharing" not in kueue.manager_config(plain)
    assert "fairSharing" not in queue(plain, "team-a")
    assert kueue.manager_config(weighted)["fairSharing"]["preemptionStrategies"]
    assert queue(weighted, "team-a")["fairSharing"] == {"weight": "2"}
    assert queue(weighted, "team-b")["fairSharing"] == {"weight": "1"}


def test_a_queue_accepts_jobs_of_its_own_namespace_only() -> None:
    spec = queue(two_teams(Allowance()), "team-b")
    assert spec["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "team-b"}}


def test_a_teams_objects_can_be_created_in_their_order() -> None:
    some = two_teams(Allowance())
    (_, member) = next(iter(some.teams()))
    objects = kueue.team_objects(some, member)
    assert objects[0]["kind"] == "Namespace"
    assert [item["kind"] for item in objects[-2:]] == ["ClusterQueue", "LocalQueue"]
    assert objects[0]["metadata"]["labels"]["muster.dev/team"] == "team-a"
    assert objects[-1]["metadata"] | {"labels": {}} == {
        "name": "default",
        "namespace": "team-a",
        "labels": {},
    }


@given(stacks())
def test_by_department_holds_every_team_and_cohort_once(some: Stack) -> None:
    grouped = kueue.by_department(some)
    assert [group[""][0] for group in grouped.values()] == kueue.cohorts(some)
    found = [name for group in grouped.values() for name in group if name]
    assert sorted(found) == sorted(member.name for _, member in some.teams())
    for _, member in some.teams():
        assert any(group.get(member.name) == kueue.team_objects(some, member) for group in grouped.values())


@given(st.randoms(use_true_random=False))
def test_the_order_of_the_file_decides_nothing(shuffler: random.Random) -> None:
    """The engine hands maps over sorted by key; a flavor order like the file's would change with it."""
    pools: list[Pool] = [CPU, L4, H100]
    expected = kueue.flavors(stack(pools=tuple(pools)))
    shuffler.shuffle(pools)
    assert kueue.flavors(Stack(cluster=GKE, pools=tuple(pools), departments=())) == expected


def test_the_gang_policy_asks_for_the_scarcest_pool_first_and_for_none_that_is_not_queued() -> None:
    fixed = replace(CPU, min_nodes=5)
    listed = gang.policy(stack(pools=(fixed, L4, H100)))["spec"]["flavors"]
    flavors = {flavor["name"]: flavor for flavor in listed}
    assert flavors["h100"]["scarcity"] > flavors["l4"]["scarcity"]
    assert flavors["cpu"]["provisioningClassName"] == ""
    assert flavors["cpu"]["verifyNodes"] is True
    assert flavors["h100"]["gpusPerNode"] == 8
    assert flavors["h100"]["maxNodes"] == 4


def test_nodes_that_come_as_pods_ask_are_not_waited_for_before_the_pods() -> None:
    flavors = gang.policy(stack(pools=(CPU, L4)))["spec"]["flavors"]
    assert next(flavor for flavor in flavors if flavor["name"] == "cpu")["verifyNodes"] is False


@pytest.mark.parametrize(
    ("name", "leased"), [(names.GKE_QUEUED_CLASS, True), (names.BEST_EFFORT_ATOMIC_CLASS, False)]
)
def test_only_gkes_class_takes_one_pod_set_and_pins_to_its_lease(name: str, leased: bool) -> None:
    (flavor,) = gang.policy(stack(pools=(replace(L4, provisioning_class=name),)))["spec"]["flavors"]
    assert flavor["onePodSetPerRequest"] is leased
    assert bool(flavor["nodeSelectorFromDetails"]) is leased


def test_a_capacity_check_answers_at_once_unless_the_pool_overrides_it() -> None:
    pool = replace(H100, provisioning_class=names.CHECK_CAPACITY_CLASS)
    assert pool.request_parameters == {"noRetry": "true"}
    assert replace(pool, parameters={"noRetry": "false"}).request_parameters == {"noRetry": "false"}
    assert replace(H100, parameters={"a": "b"}).request_parameters == {"a": "b"}
