"""Every rule about Kueue fires on what it is about, at its path, and on nothing else."""

from typing import Any

import pytest
import yaml

from muster.config.document import parse_text
from muster.config.stack import examine
from muster.model.violations import Violation
from muster.validation.kueue.queues import fields_of
from tests.unit.model.kueue_files import EVERYTHING, PREEMPTING

TEAM_A = "muster:departments.research.teams.team-a"
KUEUE = f"{TEAM_A}.kueue"
LICENCE = {"name": "example.com/licence", "nominalQuota": 1}


BUILTIN = {"mode": "builtin"}


def stack_file(
    *,
    team: dict[str, Any] | None = None,
    pool: dict[str, Any] | None = None,
    department: dict[str, Any] | None = None,
    **settings: Any,
) -> str:
    """A sound stack with something more said of team-a, of pool l4, of the department, or of the stack."""
    config: dict[str, Any] = {
        "muster:cluster": {"provider": "existing", "name": "x", "context": "x"},
        "muster:pools": {
            "cpu": {"machine": "local-cpu", "maxNodes": 4},
            "l4": {"machine": "local-l4", "capacity": "queued", "maxNodes": 8, **(pool or {})},
            "h100": {"machine": "local-h100", "maxNodes": 4},
        },
        "muster:priorities": {"prod": 1000, "dev": 100},
        "muster:departments": {
            "research": {
                "teams": {"team-a": {"quota": {"l4": 2}, **(team or {})}, "team-b": {"quota": {"l4": 2}}},
                **(department or {}),
            }
        },
        **{f"muster:{key}": value for key, value in settings.items()},
    }
    return yaml.safe_dump({"config": config})


def violations_of(text: str) -> list[Violation]:
    return examine(parse_text(text, source="test.yaml"))[1]


def paths(text: str) -> list[str]:
    return [violation.path for violation in violations_of(text)]


def of_team(**said: Any) -> str:
    return stack_file(team={"kueue": said})


def group(
    *resources: dict[str, Any], covered: list[str] | None = None, flavor: str = "licences"
) -> dict[str, Any]:
    return {
        "coveredResources": covered or [each["name"] for each in resources],
        "flavors": [{"name": flavor, "resources": list(resources)}],
    }


FLAVORS: dict[str, Any] = {"flavors": {"licences": {}}}


def with_groups(*groups: dict[str, Any], **team: Any) -> str:
    return stack_file(team={"kueue": {"resourceGroups": list(groups)}, **team}, kueue=FLAVORS)


def test_a_stack_with_every_field_breaks_no_rule_but_warns_of_labels() -> None:
    warned = {violation.path: violation.level for violation in violations_of(EVERYTHING.read_text())}
    place = "muster:departments.company.departments.research.teams.team-a.kueue"
    assert warned == {f"{place}.namespaceSelector": "warning"}
    assert violations_of(PREEMPTING.read_text()) == []
    assert violations_of(stack_file()) == []
    assert violations_of(stack_file(gangAdmission={"onStaggered": "hold"})) == []


# Children against their parents.


def test_a_team_borrows_no_more_than_can_ever_come_through_its_departments() -> None:
    some = stack_file(team={"borrow": {"l4": 3}})
    assert paths(some) == [f"{TEAM_A}.borrow.l4"]
    assert "no more than 2" in violations_of(some)[0].message
    assert paths(stack_file(team={"borrow": {"l4": 2}})) == []


def test_a_departments_own_limit_bounds_its_teams() -> None:
    def nested(limit: int | None) -> str:
        teams = {"team-a": {"quota": {"l4": 1}, "borrow": {"l4": 3}}}
        inner = {"borrow": {"l4": limit} if limit else {}, "teams": teams}
        outer = {"departments": {"inner": inner}, "teams": {"team-z": {"quota": {"l4": 6}}}}
        alone = {"kueue": {"cohort": "none"}, "teams": {"team-y": {"quota": {"l4": 1}}}}
        return stack_file(departments={"alone": alone, "outer": outer})

    place = "muster:departments.outer.departments.inner.teams.team-a.borrow.l4"
    assert paths(nested(2)) == [place]
    assert paths(nested(3)) == paths(nested(None)) == []


def test_without_a_cohort_nothing_is_shared() -> None:
    def alone(**more: Any) -> list[str]:
        return paths(stack_file(department={"kueue": {"cohort": "none"}, **more}))

    assert alone() == []
    assert alone(quota={"l4": 1}) == ["muster:departments.research.kueue.cohort"]
    assert alone(departments={"below": {}}) == ["muster:departments.research.kueue.cohort"]
    for key in ("borrow", "lend"):
        text = stack_file(team={key: {"l4": 1}}, department={"kueue": {"cohort": "none"}})
        assert f"{TEAM_A}.{key}" in paths(text)
    text = stack_file(
        team={"kueue": {"resourceGroups": [group({**LICENCE, "borrowingLimit": 1})]}},
        department={"kueue": {"cohort": "none"}},
        kueue=FLAVORS,
    )
    assert paths(text) == [f"{KUEUE}.resourceGroups[0].flavors[0].resources[0].borrowingLimit"]


def test_a_top_level_departments_own_groups_have_no_limits_and_need_a_cohort() -> None:
    own = [group({**LICENCE, "lendingLimit": 1})]
    place = "muster:departments.research.kueue.resourceGroups"
    text = stack_file(department={"kueue": {"resourceGroups": own}}, kueue=FLAVORS)
    assert paths(text) == [f"{place}[0].flavors[0].resources[0].lendingLimit"]
    text = stack_file(
        department={"kueue": {"cohort": "none", "resourceGroups": [group(LICENCE)]}}, kueue=FLAVORS
    )
    assert paths(text) == [place]


# Limits against quota, coveredResources against flavors.


def test_a_group_lends_no_more_than_it_has() -> None:
    assert paths(with_groups(group({**LICENCE, "lendingLimit": 2}))) == [
        f"{KUEUE}.resourceGroups[0].flavors[0].resources[0].lendingLimit"
    ]
    assert paths(with_groups(group({**LICENCE, "lendingLimit": 1}))) == []


def test_a_flavor_has_exactly_the_resources_of_its_group() -> None:
    short = group(LICENCE, covered=["example.com/licence", "example.com/seat"])
    assert paths(with_groups(short)) == [f"{KUEUE}.resourceGroups[0].flavors[0].resources"]
    twice = group(LICENCE, LICENCE, covered=["example.com/licence"])
    assert paths(with_groups(twice)) == [f"{KUEUE}.resourceGroups[0].flavors[0].resources"]


def test_a_resource_and_a_flavor_are_in_one_group_only() -> None:
    cpu = {"name": "cpu", "nominalQuota": 1}
    assert paths(with_groups(group(cpu), group(cpu, flavor="l4"))) == [
        f"{KUEUE}.resourceGroups",
        f"{KUEUE}.resourceGroups[1].coveredResources[0]",
    ]
    assert paths(with_groups(group(LICENCE, flavor="l4"))) == [f"{KUEUE}.resourceGroups[0].flavors[0].name"]
    assert paths(with_groups(group(LICENCE), group(LICENCE))) == [
        f"{KUEUE}.resourceGroups[1].coveredResources[0]",
        f"{KUEUE}.resourceGroups[1].flavors[0].name",
    ]
    fabric = {"l4": {"gpus": 2, "resources": {"example.com/licence": 1}}}
    assert paths(with_groups(group(LICENCE), quota=fabric)) == [
        f"{KUEUE}.resourceGroups[0].coveredResources[0]"
    ]


def test_a_group_names_a_flavor_that_exists_and_is_not_empty() -> None:
    (found,) = violations_of(with_groups(group(LICENCE, flavor="licenses")))
    assert found.path == f"{KUEUE}.resourceGroups[0].flavors[0].name"
    assert "did you mean 'licences'" in found.fix
    assert paths(with_groups({"coveredResources": [], "flavors": []})) == [f"{KUEUE}.resourceGroups[0]"]


def test_a_quota_of_another_resource_is_lent_only_as_far_as_it_goes() -> None:
    quota = {"l4": {"gpus": 2, "resources": {"example.com/fabric": 1}}}
    lend = {"l4": {"gpus": 1, "resources": {"example.com/fabric": 2}}}
    assert paths(stack_file(team={"quota": quota, "lend": lend})) == [f"{TEAM_A}.lend.l4"]


# Preemption and fair sharing.


def test_borrowing_by_preemption_goes_with_reclaiming_and_without_fair_sharing() -> None:
    borrow = {"borrowWithinCohort": {"policy": "LowerPriority"}}
    assert paths(of_team(**borrow)) == []
    place = f"{KUEUE}.borrowWithinCohort.policy"
    assert paths(stack_file(team={"kueue": borrow, "weight": 2})) == [place]
    assert paths(stack_file(team={"kueue": borrow, "preemption": {"reclaim": "never"}})) == [place]


def test_a_threshold_bounds_a_preemption_that_can_happen() -> None:
    place = f"{KUEUE}.borrowWithinCohort.maxPriorityThreshold"
    assert paths(of_team(borrowWithinCohort={"maxPriorityThreshold": 100})) == [place]
    some = of_team(borrowWithinCohort={"policy": "LowerPriority", "maxPriorityThreshold": 99})
    assert [(each.path, each.level) for each in violations_of(some)] == [(place, "warning")]


def test_ordering_by_usage_needs_its_settings_and_weights_of_local_queues_need_it() -> None:
    usage = {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}}
    assert paths(of_team(**usage)) == [f"{KUEUE}.admissionScope"]
    settings = {"admissionFairSharing": {"usageHalfLifeTime": "1h"}}
    weighted = {**usage, "localQueues": {"night": {"weight": 2}}}
    assert paths(stack_file(team={"kueue": weighted}, kueue=settings)) == []
    assert paths(of_team(localQueues={"night": {"weight": 2}})) == [f"{KUEUE}.localQueues.night.weight"]


def test_a_preference_among_flavors_needs_every_flavor_tried() -> None:
    some = {"whenCanBorrow": "TryNextFlavor", "preference": "BorrowingOverPreemption"}
    assert paths(of_team(flavorFungibility=some)) == []
    some["whenCanPreempt"] = "MayStopSearch"
    assert paths(of_team(flavorFungibility=some)) == [f"{KUEUE}.flavorFungibility.preference"]


def test_concurrent_admission_does_not_go_with_our_check() -> None:
    said = {"concurrentAdmissionPolicy": {"mode": "TryPreferredFlavors"}}
    (found,) = violations_of(stack_file(team={"kueue": said}))
    assert found.path == f"{KUEUE}.concurrentAdmissionPolicy"
    assert "mode: builtin" in found.fix
    assert violations_of(stack_file(team={"kueue": said}, pool={"capacity": "on-demand"})) == []


@pytest.mark.parametrize(
    ("policy", "team", "place"),
    [
        ({"mode": "RetainFirstAdmission", "lastAcceptableFlavorName": "l4"}, {}, ".lastAcceptableFlavorName"),
        (
            {"mode": "TryPreferredFlavors", "lastAcceptableFlavorName": "h100"},
            {},
            ".lastAcceptableFlavorName",
        ),
        ({"mode": "TryPreferredFlavors"}, {"queueing": "strict"}, ""),
        ({"mode": "TryPreferredFlavors", "lastAcceptableFlavorName": "l4"}, {}, None),
    ],
)
def test_concurrent_admission_keeps_to_what_kueue_takes(
    policy: dict[str, str], team: dict[str, Any], place: str | None
) -> None:
    text = stack_file(team={"kueue": {"concurrentAdmissionPolicy": policy}, **team}, gangAdmission=BUILTIN)
    assert paths(text) == ([] if place is None else [f"{KUEUE}.concurrentAdmissionPolicy{place}"])


def test_concurrent_admission_takes_one_group_and_sixteen_flavors() -> None:
    said = {"concurrentAdmissionPolicy": {"mode": "RetainFirstAdmission"}, "resourceGroups": [group(LICENCE)]}
    place = f"{KUEUE}.concurrentAdmissionPolicy"
    assert paths(stack_file(team={"kueue": said}, kueue=FLAVORS, gangAdmission=BUILTIN)) == [place]
    pools = {f"cpu-{number}": {"machine": "local-cpu", "maxNodes": 1} for number in range(17)}
    del said["resourceGroups"]
    text = stack_file(
        team={"kueue": said, "quota": {}},
        pools=pools,
        departments={"research": {"teams": {"team-a": {"kueue": said}}}},
    )
    assert paths(text) == [place]


def test_a_selector_that_a_tenant_could_meet_is_warned_of() -> None:
    place = f"{KUEUE}.namespaceSelector"
    by_name = {"matchLabels": {"kubernetes.io/metadata.name": "team-a"}}
    assert paths(of_team(namespaceSelector=by_name)) == []
    assert [
        each.level for each in violations_of(of_team(namespaceSelector={"matchLabels": {"team": "a"}}))
    ] == ["warning"]
    wrong = {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In"}]}
    assert paths(of_team(namespaceSelector=wrong)) == [f"{place}.matchExpressions[0]"]


# Flavors and topologies.

RACKS = {"topologies": {"racks": ["example.com/rack", "kubernetes.io/hostname"]}}


def test_a_topology_cannot_stand_on_a_queued_pool_but_with_kueues_own_check() -> None:
    pool = {"kueue": {"topology": "racks"}}
    assert paths(stack_file(pool=pool, kueue=RACKS)) == ["muster:pools.l4.kueue.topology"]
    assert paths(stack_file(pool=pool, kueue=RACKS, gangAdmission="builtin")) == []
    assert paths(stack_file(pool={**pool, "capacity": "on-demand"}, kueue=RACKS)) == []


@pytest.mark.parametrize(
    ("levels", "place"),
    [
        ([], ""),
        ([f"example.com/{number}" for number in range(17)], ""),
        (["kubernetes.io/hostname", "example.com/rack"], "[0]"),
        (["example.com/rack", "example.com/rack"], "[1]"),
        (["not a label"], "[0]"),
    ],
)
def test_a_topology_goes_from_the_widest_level_to_the_narrowest(levels: list[str], place: str) -> None:
    assert paths(stack_file(kueue={"topologies": {"racks": levels}})) == [
        f"muster:kueue.topologies.racks{place}"
    ]


def test_a_flavor_with_a_topology_knows_it_and_has_a_label() -> None:
    place = "muster:kueue.flavors.tape.topology"
    assert paths(stack_file(kueue={**RACKS, "flavors": {"tape": {"topology": "racks"}}})) == [place]
    labelled = {"topology": "rack", "nodeLabels": {"a": "b"}}
    assert paths(stack_file(kueue={**RACKS, "flavors": {"tape": labelled}})) == [place]


@pytest.mark.parametrize(
    ("said", "place"),
    [
        ({"nodeLabels": {"muster.dev/pool": "x"}}, "nodeLabels.muster.dev/pool"),
        ({"nodeLabels": {"a b": "x"}}, "nodeLabels.a b"),
        ({"nodeLabels": {f"l{number}": "x" for number in range(8)}}, "nodeLabels"),
        ({"nodeTaints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]}, "nodeTaints[0]"),
        ({"nodeTaints": [{"key": f"t{number}", "effect": "NoExecute"} for number in range(8)]}, "nodeTaints"),
        ({"nodeTaints": [{"key": "a b", "effect": "NoExecute"}]}, "nodeTaints[0]"),
        ({"nodeTaints": [{"key": "a", "effect": "NoExecute"}] * 2}, "nodeTaints[1]"),
        ({"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}, "tolerations[0]"),
        ({"tolerations": [{"operator": "Exists"}]}, "tolerations[0]"),
        ({"tolerations": [{"value": "x"}]}, "tolerations[0]"),
        ({"tolerations": [{"key": "a", "operator": "Exists", "value": "x"}]}, "tolerations[0]"),
        ({"tolerations": [{"key": "a", "seconds": 5}]}, "tolerations[0]"),
        ({"tolerations": [{"key": f"t{number}"} for number in range(9)]}, "tolerations"),
    ],
)
def test_labels_taints_and_tolerations_are_what_kueue_takes(said: dict[str, Any], place: str) -> None:
    assert paths(stack_file(pool={"kueue": said})) == [f"muster:pools.l4.kueue.{place}"]


# Checks.


def check(controller: str = "example.com/budget") -> dict[str, Any]:
    return {"admissionChecks": {"budget": {"controllerName": controller}}}


def test_a_check_exists_and_judges_pools_of_the_queue() -> None:
    place = f"{KUEUE}.admissionChecks.budget"
    assert paths(of_team(admissionChecks={"budget": "all"})) == [place]
    known = {"team": {"kueue": {"admissionChecks": {"budget": ["l4"]}}}, "kueue": check()}
    assert paths(stack_file(**known)) == []
    known["team"] = {"kueue": {"admissionChecks": {"budget": ["h100"]}}}
    assert paths(stack_file(**known)) == [f"{place}[0]"]


def test_checks_of_capacity_come_with_queued_pools_and_names_are_taken_once() -> None:
    for controller in ("muster.dev/gang-admission", "kueue.x-k8s.io/provisioning-request", "nobody"):
        assert paths(stack_file(kueue=check(controller))) == [
            "muster:kueue.admissionChecks.budget.controllerName"
        ]
    for name in ("gang", "Budget"):
        taken = {"admissionChecks": {name: {"controllerName": "example.com/x"}}}
        assert paths(stack_file(kueue=taken)) == [f"muster:kueue.admissionChecks.{name}"]
    named = {"kueue": {"provisioning": {"check": "budget"}}}
    assert paths(stack_file(pool=named, kueue=check(), gangAdmission="builtin")) == [
        "muster:kueue.admissionChecks.budget"
    ]


def test_multikueue_goes_with_no_queued_pool_on_every_flavor_and_once() -> None:
    multi, uses = check("kueue.x-k8s.io/multikueue"), {"budget": "all"}
    place = f"{KUEUE}.admissionChecks.budget"
    assert paths(stack_file(team={"kueue": {"admissionChecks": uses}}, kueue=multi)) == [place]
    free = {"quota": {"h100": 1}, "kueue": {"admissionChecks": uses}}
    assert paths(stack_file(team=free, kueue=multi)) == []
    free["kueue"] = {"admissionChecks": {"budget": ["h100"]}}
    assert paths(stack_file(team=free, kueue=multi)) == [place]
    multi["admissionChecks"]["other"] = {"controllerName": "kueue.x-k8s.io/multikueue"}
    free["kueue"] = {"admissionChecks": {"budget": "all", "other": "all"}}
    assert paths(stack_file(team=free, kueue=multi)) == [place, f"{KUEUE}.admissionChecks.other"]


def test_multikueue_itself_is_refused_with_the_reason() -> None:
    (found,) = violations_of(stack_file(kueue={"multiKueue": {"clusters": ["a"]}}))
    assert (found.path, "one cluster" in found.fix) == ("muster:kueue.multiKueue", True)


def test_settings_of_kueues_own_check_are_for_a_queued_pool_that_has_it() -> None:
    pool = {"kueue": {"provisioning": {"retries": 1}}}
    place = "muster:pools.l4.kueue.provisioning"
    assert paths(stack_file(pool=pool)) == [place]
    assert paths(stack_file(pool={**pool, "capacity": "on-demand"}, gangAdmission="builtin")) == [place]
    assert paths(stack_file(pool=pool, gangAdmission="builtin")) == []
    named = {"kueue": {"provisioning": {"check": "A b"}}}
    assert paths(stack_file(pool=named, gangAdmission="builtin")) == [f"{place}.check"]


def test_pools_of_one_check_want_the_same() -> None:
    def pools(retries: int) -> str:
        said = {"kueue": {"provisioning": {"check": "one", "config": "one", "retries": retries}}}
        more = {"machine": "local-l4", "capacity": "queued", "maxNodes": 8}
        first = {"kueue": {"provisioning": {"check": "one", "config": "one", "retries": 1}}}
        pools = {
            "cpu": {"machine": "local-cpu", "maxNodes": 4},
            "l4": {**more, **first},
            "l4-b": {**more, **said},
        }
        return stack_file(pools=pools, gangAdmission="builtin")

    assert paths(pools(1)) == []
    assert paths(pools(2)) == ["muster:pools.l4-b.kueue.provisioning"]


def test_a_workload_has_no_more_checks_than_kueue_takes() -> None:
    checks = {f"c{number}": {"controllerName": "example.com/x"} for number in range(8)}
    some = stack_file(
        team={"kueue": {"admissionChecks": dict.fromkeys(checks, "all")}}, kueue={"admissionChecks": checks}
    )
    assert paths(some) == [f"{KUEUE}.admissionChecks"]


# Counts and names.


def _of(flavors: int) -> dict[str, Any]:
    return {"flavors": {f"f{number}": {} for number in range(flavors)}}


def _pairs(flavors: int) -> dict[str, Any]:
    """A group of 64 resources, each in every flavor."""
    names = [f"example.com/r{number}" for number in range(64)]
    resources = [{"name": name, "nominalQuota": 1} for name in names]
    return {
        "coveredResources": names,
        "flavors": [{"name": name, "resources": resources} for name in _of(flavors)["flavors"]],
    }


def test_a_queue_has_no_more_groups_and_resources_than_kueue_takes() -> None:
    names = [f"example.com/r{number}" for number in range(65)]
    wide = group(*({"name": name, "nominalQuota": 1} for name in names))
    assert paths(with_groups(wide)) == [KUEUE]
    assert paths(stack_file(team={"kueue": {"resourceGroups": [_pairs(8)]}}, kueue=_of(8))) == []
    (found,) = violations_of(stack_file(team={"kueue": {"resourceGroups": [_pairs(9)]}}, kueue=_of(9)))
    assert "has 576 pairs" in found.message
    many = [
        group({"name": f"example.com/r{number}", "nominalQuota": 1}, flavor=f"f{number}")
        for number in range(16)
    ]
    text = stack_file(team={"kueue": {"resourceGroups": many}}, kueue=_of(16))
    assert [(each.path, "17 resource groups" in each.message) for each in violations_of(text)] == [
        (KUEUE, True)
    ]
    text = stack_file(team={"kueue": {"resourceGroups": many[:15]}}, kueue=_of(16))
    assert paths(text) == []


def test_two_objects_of_a_kind_never_share_a_name() -> None:
    assert paths(stack_file(team={"kueue": {"clusterQueue": "team-b"}})) == [
        "muster:departments.research.teams.team-b.kueue.clusterQueue"
    ]
    assert paths(stack_file(pool={"kueue": {"flavor": "h100"}})) == ["muster:pools.h100"]
    assert paths(stack_file(kueue={"flavors": {"l4": {}}})) == ["muster:kueue.flavors.l4"]
    assert paths(of_team(clusterQueue="Cluster_Queue")) == [f"{KUEUE}.clusterQueue"]
    assert paths(of_team(localQueues={"Night": {}})) == [f"{KUEUE}.localQueues.Night"]
    assert paths(stack_file(kueue={"topologies": {"Racks": ["example.com/rack"]}})) == [
        "muster:kueue.topologies.Racks"
    ]


# What another scheduler cannot express.


def test_another_scheduler_names_every_field_that_only_kueue_knows() -> None:
    text = EVERYTHING.read_text().replace("config:", "config:\n  muster:scheduler: kai", 1)
    stack, found = examine(parse_text(text, source="test.yaml"))
    assert stack is not None
    named = [each.path for each in found if "cannot express" in each.message and "Kueue" in each.message]
    assert named == list(fields_of(stack))
    place = "muster:departments.company.departments.research"
    assert {
        "muster:pools.l4.kueue.topology",
        "muster:pools.l4.kueue.provisioning.check",
        f"{place}.kueue.cohort",
        f"{place}.teams.team-a.kueue.flavorFungibility",
        f"{place}.teams.team-a.kueue.localQueues",
        f"{place}.teams.team-a.quota.l4.resources",
        "muster:kueue.admissionFairSharing",
    } <= set(named)


def test_a_short_stack_uses_no_field_that_only_kueue_knows() -> None:
    stack, _ = examine(parse_text(stack_file(), source="test.yaml"))
    assert stack is not None
    assert fields_of(stack) == {}


def test_a_mistake_in_a_kueue_section_is_reported_at_its_line() -> None:
    text = EVERYTHING.read_text().replace("whenCanPreempt: TryNextFlavor", "whenCanPreempt: TryNextFlavour")
    (found,) = [each for each in violations_of(text) if "whenCanPreempt" in each.path]
    line = next(number for number, each in enumerate(text.splitlines(), start=1) if "TryNextFlavour" in each)
    assert "did you mean 'TryNextFlavor'" in found.fix
    assert parse_text(text, source="x").lines[found.path] == line
