"""A stack that has the queues of a cluster as they are: exact groups, namespaces of others, own checks."""

import json
from typing import Any

from muster.components.bundle import text
from muster.config.document import parse_text
from muster.config.stack import examine
from muster.model.quantities import Millicores, format_cpu
from muster.model.stack import Stack
from muster.render import kueue, queuetree
from muster.render.queues import objects
from tests.unit.model.model_stacks import parsed, stack_text

_CLUSTER = {"provider": "existing", "name": "x", "context": "x"}
_CPU = {"name": "cpu", "nominalQuota": 9}


def _stack(config: dict[str, Any]) -> Stack:
    return parsed(stack_text(config))


def _refused(config: dict[str, Any]) -> list[str]:
    _, found = examine(parse_text(stack_text(config), source="test.yaml"))
    return [each.path for each in found if each.level == "error"]


def _config(teams: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {
        "cluster": _CLUSTER,
        "pools": {},
        "kueue": {"install": False, "flavors": {"default-flavor": {}}},
        "gangAdmission": "off",
        "tenancy": {"mode": "off", "namespaces": "existing"},
        "departments": {"alone": {"kueue": {"cohort": "none"}, "teams": teams}},
        **others,
    }


def _team(**said: Any) -> dict[str, Any]:
    flavor = {"name": "default-flavor", "resources": [_CPU]}
    groups = [{"coveredResources": ["cpu"], "flavors": [flavor]}]
    return {"namespace": "default", "localQueue": "user-queue", **said} | {
        "kueue": {"namespaceSelector": {}, "resourceGroups": groups, **said.get("kueue", {})}
    }


def _found(stack: Stack, kind: str) -> list[dict[str, Any]]:
    return [each for each in objects(stack) if each["kind"] == kind]


def test_groups_that_cover_cpu_are_all_that_the_queue_has() -> None:
    stack = _stack(_config({"cluster-queue": _team()}))
    (queue,) = _found(stack, "ClusterQueue")
    flavor = {"name": "default-flavor", "resources": [{"name": "cpu", "nominalQuota": "9"}]}
    assert queue["spec"]["resourceGroups"] == [{"coveredResources": ["cpu"], "flavors": [flavor]}]
    assert queue["spec"]["namespaceSelector"] == {}


def test_groups_may_name_the_flavor_of_a_pool_and_take_its_cpu_from_the_others() -> None:
    pools = {"default-flavor": {"machine": "local-cpu", "maxNodes": 40}}
    config = _config({"exact": _team(), "short": {"namespace": "other"}}, pools=pools)
    config["kueue"] = {"install": False}
    stack = _stack(config)
    exact, short = _found(stack, "ClusterQueue")
    assert [group["coveredResources"] for group in exact["spec"]["resourceGroups"]] == [["cpu"]]
    (pool,) = stack.pools
    left = format_cpu(Millicores(pool.max_cpu - 9000))
    assert short["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] == left


def test_groups_that_cover_cpu_do_not_go_with_a_quota() -> None:
    pools = {"l4": {"machine": "local-l4", "maxNodes": 4}}
    assert _refused(_config({"team-a": _team(quota={"l4": 1})}, pools=pools)) == [
        "muster:departments.alone.teams.team-a.kueue.resourceGroups"
    ]


def test_the_flavor_of_a_pool_is_exactly_what_is_written() -> None:
    taint = {"key": "spot", "value": "yes", "effect": "NoSchedule"}
    own = {"exact": True, "nodeLabels": {"gpu": "l4"}, "nodeTaints": [taint]}
    tolerated = {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}
    pools = {"l4": {"machine": "local-l4", "maxNodes": 4, "kueue": {**own, **tolerated}}}
    stack = _stack(_config({"a": _team()}, pools=pools))
    flavor = next(each for each in _found(stack, "ResourceFlavor") if each["metadata"]["name"] == "l4")
    assert flavor["spec"] == {"nodeLabels": {"gpu": "l4"}, "nodeTaints": [taint], **tolerated}
    with_gangs = _config({}, pools=pools, gangAdmission="muster", tenancy="enforce")
    assert _refused(with_gangs) == ["muster:pools.l4.kueue.exact"]


def test_existing_namespaces_get_queues_and_nothing_else() -> None:
    doors = {"user-queue": {"namespaces": ["default", "research"]}}
    stack = _stack(_config({"a": _team(kueue={"localQueues": doors})}))
    own = kueue.by_department(stack)["alone"]["a"]
    assert [(each["kind"], each["metadata"].get("namespace")) for each in own] == [
        ("ClusterQueue", None),
        ("LocalQueue", "default"),
        ("LocalQueue", "research"),
    ]
    # Two of one name: the text that a Bundle gets has both.
    assert {each["metadata"].get("namespace") for each in json.loads(text(own)).values()} == {
        None,
        "default",
        "research",
    }
    assert queuetree.dry_runs(stack) == {}
    assert [queue.name for queue in queuetree.submissions(stack)["a"].queues] == ["user-queue"]


def test_teams_share_an_existing_namespace_if_their_queues_have_names_of_their_own() -> None:
    both = {"a": _team(), "b": _team(localQueue="other-queue")}
    stack = _stack(_config(both))
    said = queuetree.submissions(stack)
    assert {team: each.queues[0].name for team, each in said.items()} == {
        "a": "user-queue",
        "b": "other-queue",
    }
    assert _refused(_config({"a": _team(), "b": _team()})) == [
        "muster:departments.alone.teams.b.kueue.localQueues.user-queue"
    ]


def test_a_queue_without_a_door_has_no_local_queue() -> None:
    stack = _stack(_config({"a": _team(kueue={"localQueues": {"user-queue": {"namespaces": []}}})}))
    assert _found(stack, "LocalQueue") == []


def test_existing_namespaces_go_with_nothing_that_needs_their_labels() -> None:
    config = _config({"a": _team(members=["people@example.com"])}, tenancy={"namespaces": "existing"})
    del config["gangAdmission"]
    assert _refused(config) == [
        "muster:tenancy.namespaces",
        "muster:tenancy.namespaces",
        "muster:departments.alone.teams.a.members",
    ]
    named = _config({"a": _team(kueue={"localQueues": {"b": {"namespaces": ["c"]}}})}, tenancy="off")
    assert _refused(named) == ["muster:departments.alone.teams.a.kueue.localQueues.b.namespaces"]


def test_kueues_own_check_comes_with_a_configuration_of_the_stack() -> None:
    check = {
        "controllerName": "kueue.x-k8s.io/provisioning-request",
        "parameters": {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "flex"},
    }
    flex = {
        "provisioningClassName": "queued-provisioning.gke.io",
        "managedResources": ["nvidia.com/gpu"],
        "parameters": {"maxRunDurationSeconds": "3600"},
        "retryStrategy": {"backoffLimitCount": 2, "backoffBaseSeconds": 0},
    }
    config = _config({"a": _team(kueue={"admissionChecks": {"gpu": "all"}})})
    config["kueue"] |= {"admissionChecks": {"gpu": check}, "provisioningRequestConfigs": {"flex": flex}}
    stack = _stack(config)
    (made,) = _found(stack, "ProvisioningRequestConfig")
    assert (made["metadata"]["name"], made["spec"]) == ("flex", flex)
    del config["kueue"]["provisioningRequestConfigs"]
    assert _refused(config) == ["muster:kueue.admissionChecks.gpu.controllerName"]


def test_a_priority_has_a_description_of_its_own() -> None:
    said = {"prod": {"value": 1000, "description": "Serving."}, "dev": 100}
    stack = _stack(_config({"a": _team()}, priorities=said))
    prod, dev = _found(stack, "WorkloadPriorityClass")
    assert (prod["value"], prod["description"]) == (1000, "Serving.")
    assert dev["description"].startswith("Priority dev (100)")
