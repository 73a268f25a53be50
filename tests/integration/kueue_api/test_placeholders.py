"""Gangs of pools whose autoscaler answers no ProvisioningRequest: real Kueue, scheduler and jobs, and a cloud
that makes a node for each pod that waits, while it has some.
"""

from functools import partial
from typing import Any

from muster.model import names
from tests.integration.accounts import attack
from tests.integration.kueue_api.cloud import RIVALS, Cloud, force, rival
from tests.integration.kueue_api.objects import apply
from tests.integration.kueue_api.works import with_gpu, work
from tests.integration.kueue_api.world import JOBS, MERGE, PODS, TEMPLATES, WORKLOADS, World, is_outside
from tests.integration.pod_autoscaler import PLACEHOLDERS, is_closed, make_node, set_condition, taint_of
from tests.waiting import eventually

Object = dict[str, Any]


def test_a_gang_starts_when_placeholders_have_all_of_its_nodes(cloud: Cloud) -> None:
    """Rivals of the same shape wait while its nodes come and are handed over."""
    world = cloud.world
    with world.manager("--read-events"):
        apply(world.plane, work("Job", with_gpu("l4"), count=3))
        eventually("placeholders are made", lambda: len(_placeholders(world)) == 3)
        held = _placeholders(world)
        assert all(each["spec"]["priorityClassName"] == names.PLACEHOLDER_PRIORITY_CLASS for each in held)
        cloud.stock["l4"] = 2
        cloud.eventually("two have nodes", lambda: len(_bound(PLACEHOLDERS, world)) == 2)
        (waiting,) = [each for each in held if _is_waiting(world, each)]
        apply(world.plane, _karpenters_event(waiting))
        said = "2 of 3 l4 nodes for main (at its limit) (limit 30m); releases at"
        cloud.eventually("it says so, and why", lambda: said in world.entry("job").get("message", ""))
        assert not world.items(PODS)
        assert not any(taint_of(node) for node in cloud.nodes())
        for number in range(4):
            apply(world.plane, rival(number))
        cloud.stock["l4"] = 5
        cloud.eventually("it runs whole", lambda: len(_bound(PODS, world)) == 3)
        eventually("the placeholders are gone", lambda: not world.items(PLACEHOLDERS))
        eventually("the taints are gone", lambda: not any(map(taint_of, cloud.nodes())))
    (entry,) = {str(each["tolerations"]) for each in world.entry("job")["podSetUpdates"]}
    assert names.HELD_TAINT_KEY in entry
    on = {each["spec"]["nodeName"] for each in world.items(PODS)}
    assert len(on) == 3
    assert not on & {each["spec"]["nodeName"] for each in _bound(f"/api/v1/namespaces/{RIVALS}/pods", world)}


def test_with_stock_for_half_of_it_no_pod_starts_and_everything_is_given_back(cloud: Cloud) -> None:
    world = cloud.world
    cloud.stock["l4"] = 2
    with world.policy(provisionTimeout="12s", retry={"base": "10m", "max": "10m"}), world.manager():
        apply(world.plane, work("Job", with_gpu("l4"), count=4))
        cloud.eventually("two have nodes", lambda: len(_bound(PLACEHOLDERS, world)) == 2)
        cloud.eventually("it is out of the quota", lambda: is_outside(world.workload("job")))
        assert "2 of 4 l4 nodes" in world.notes("job")[names.LAST_FAILURE_ANNOTATION]
        eventually("the placeholders are gone", lambda: not world.items(PLACEHOLDERS))
        eventually("the quota is free", lambda: not world.holds("job", "QuotaReserved"))
    assert not world.items(PODS)
    assert not any(map(taint_of, cloud.nodes()))


def test_the_next_leader_goes_on_and_sweeps(cloud: Cloud) -> None:
    """Killed while it waits, killed with the taints set, and the job deleted while no manager leads."""
    world = cloud.world
    with world.manager(name="first"):
        apply(world.plane, work("Job", with_gpu("l4"), count=2))
        eventually("placeholders are made", lambda: len(_placeholders(world)) == 2)
    cloud.stock["l4"] = 2
    cloud.eventually("both have nodes", lambda: len(_bound(PLACEHOLDERS, world)) == 2)
    with world.manager(name="second"):
        eventually("it runs whole", lambda: len(_bound(PODS, world)) == 2)
        eventually("the taints are gone", lambda: not any(map(taint_of, cloud.nodes())))
    world.delete(f"{JOBS}/job")
    force(world.plane, PODS)
    for path in (PODS, WORKLOADS, TEMPLATES):
        world.wait_until_empty(path)
    with world.manager(name="third"):
        apply(world.plane, work("Job", with_gpu("l4"), count=4))
        cloud.eventually("two have nodes", lambda: len(_bound(PLACEHOLDERS, world)) == 2)
    for node in cloud.nodes():  # As if it had died between the taints and Ready.
        taint = {"key": names.HELD_TAINT_KEY, "value": "muster-gone", "effect": "NoSchedule"}
        taints = [*node["spec"]["taints"], taint]
        world.patch(f"/api/v1/nodes/{node['metadata']['name']}", {"spec": {"taints": taints}})
    world.delete(f"{JOBS}/job")
    world.wait_until_empty(WORKLOADS)
    with world.manager(name="fourth"):
        eventually("the placeholders are swept", lambda: not world.items(PLACEHOLDERS))
        eventually("the taints are swept", lambda: not any(map(taint_of, cloud.nodes())))


def test_a_gang_gets_another_node_for_a_broken_one_which_is_opened_once_it_is_repaired(cloud: Cloud) -> None:
    world = cloud.world
    cloud.stock["l4"] = 1
    with world.policy(brokenNodes={"after": "2s"}), world.manager("--set-aside-broken-nodes"):
        apply(world.plane, work("Job", with_gpu("l4"), count=2))
        cloud.eventually("one has a node", lambda: len(_bound(PLACEHOLDERS, world)) == 1)
        (broken,) = (each["spec"]["nodeName"] for each in _bound(PLACEHOLDERS, world))
        set_condition(world.plane, broken, "SysLogsXIDError", "True")
        cloud.eventually("it is set aside", lambda: _closed(cloud) == [broken])
        said = f"node {broken} is set aside (condition-SysLogsXIDError-True; "
        cloud.eventually("the gang says so", lambda: said in world.entry("job").get("message", ""))
        assert world.holds("job", "QuotaReserved")
        cloud.stock["l4"] = 3
        cloud.eventually("it runs whole", lambda: len(_bound(PODS, world)) == 2)
        assert broken not in {each["spec"]["nodeName"] for each in world.items(PODS)}
        if broken in {node["metadata"]["name"] for node in cloud.nodes()}:
            set_condition(world.plane, broken, "SysLogsXIDError", "False")
        cloud.eventually("no node is set aside", lambda: not _closed(cloud))


def _closed(cloud: Cloud) -> list[str]:
    return [node["metadata"]["name"] for node in cloud.nodes() if is_closed(node)]


def test_of_two_gangs_with_capacity_for_one_one_starts_whole_and_then_the_other(cloud: Cloud) -> None:
    world = cloud.world
    with world.manager():
        for name in ("early", "late"):
            job = work("Job", with_gpu("l4"), count=3)
            job["metadata"]["name"] = name
            apply(world.plane, job)
            eventually(f"{name} asks", partial(_of, name, world))
        cloud.stock["l4"] = 3
        cloud.eventually("one runs whole", lambda: len(_bound(PODS, world)) == 3)
        # The scheduler chooses whose placeholders it places first.
        (first,) = {each["metadata"]["labels"]["job-name"] for each in world.items(PODS)}
        world.delete(f"{JOBS}/{first}")
        force(world.plane, PODS)
        cloud.eventually("the other runs whole", lambda: len(_bound(PODS, world)) == 3)
        assert len(cloud.nodes()) == 3


def _placeholders(world: World) -> list[Object]:
    return world.items(PLACEHOLDERS)


def _of(job: str, world: World) -> list[Object]:
    uid = world.uid(job)
    return [
        each
        for each in world.items(PLACEHOLDERS)
        if each["metadata"]["labels"][names.WORKLOAD_UID_LABEL] == uid
    ]


def _bound(path: str, world: World) -> list[Object]:
    return [each for each in world.items(path) if each["spec"].get("nodeName")]


def _is_waiting(world: World, pod: Object) -> bool:
    return pod["metadata"]["name"] not in {each["metadata"]["name"] for each in _bound(PLACEHOLDERS, world)}


def _karpenters_event(pod: Object) -> Object:
    """As version 1.14.1 has it."""
    meta = {"name": "limit", "namespace": names.PLACEHOLDER_NAMESPACE}
    note = "all available instance types exceed limits for nodepool (NodePool=l4)"
    about = {"kind": "Pod", "name": pod["metadata"]["name"], "namespace": names.PLACEHOLDER_NAMESPACE}
    body = {"reason": "FailedScheduling", "message": note, "reportingComponent": "karpenter"}
    return {"apiVersion": "v1", "kind": "Event", "metadata": meta, "involvedObject": about, **body}


# What a stolen token of the account can do


def _placeholder(**spec: Any) -> Object:
    """As the controller makes it."""
    meta = {
        "name": "muster-1-0-hold-0",
        "labels": {names.SET_LABEL: "muster-1", names.WORKLOAD_UID_LABEL: "a"},
    }
    container = {
        "name": "placeholder",
        "image": "pause",
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    quiet = {
        "automountServiceAccountToken": False,
        "priorityClassName": names.PLACEHOLDER_PRIORITY_CLASS,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    }
    body = {"containers": [container], **quiet, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": body}


def test_the_account_makes_placeholders_in_their_namespace_and_nothing_else(cloud: Cloud) -> None:
    world = cloud.world
    assert attack(world.plane, "POST", PLACEHOLDERS, _placeholder()) == 200
    for path in (PODS, "/api/v1/namespaces/kube-system/pods"):
        assert attack(world.plane, "POST", path, _placeholder()) == 403
    for spec in (
        {"hostNetwork": True},
        {"nodeName": "cpu-0"},
        {"automountServiceAccountToken": True},
        {"containers": [{"name": "placeholder", "image": "any", "command": ["sh"]}]},
        {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]},
    ):
        assert attack(world.plane, "POST", PLACEHOLDERS, _placeholder(**spec)) == 403, spec


def test_the_account_writes_two_taints_of_nodes_and_nothing_else(cloud: Cloud) -> None:
    world, merge = cloud.world, MERGE
    make_node(world.plane, "l4-attacked", "l4")
    path = "/api/v1/nodes/l4-attacked"
    before = world.plane.call("GET", path)["spec"]["taints"]
    ours = {"key": names.HELD_TAINT_KEY, "value": "muster-1", "effect": "NoSchedule"}
    assert attack(world.plane, "PATCH", path, {"spec": {"taints": [*before, ours]}}, merge) == 200
    closing = {"key": names.BROKEN_TAINT_KEY, "value": "any", "effect": "NoSchedule"}
    assert attack(world.plane, "PATCH", path, {"spec": {"taints": [*before, closing]}}, merge) == 200
    for patch in (
        {"spec": {"taints": [ours]}},
        {"spec": {"taints": [*before, {**ours, "effect": "NoExecute"}]}},
        {"spec": {"taints": [*before, {**ours, "key": "other"}]}},
        {"spec": {"taints": [*before, {**closing, "effect": "NoExecute"}]}},
        {"spec": {"unschedulable": True}},
        {"metadata": {"labels": {names.POOL_LABEL: "h100"}}},
        {"metadata": {"annotations": {"a": "b"}}},
    ):
        assert attack(world.plane, "PATCH", path, patch, merge) == 403, patch
    status: Object = {"status": {"conditions": []}}
    assert attack(world.plane, "PATCH", f"{path}/status", status, merge) == 403
