"""What a cache holds of an object, and where an object lies."""

import msgspec

from muster.controller.kube.resource import LARGEST_SHARED, Resource
from muster.controller.kueue.objects import WORKLOAD, Workload
from tests.unit.controller_kube.test_reflector import THING


def _workload(name: str, *, queue: str) -> Workload:
    needs = {"requests": {"cpu": "1", "nvidia.com/gpu": 1}, "limits": {"nvidia.com/gpu": "1"}}
    container = {"name": name, "env": [{"name": "ME", "value": name}], "resources": needs}
    pods = {"name": "main", "count": 2, "template": {"spec": {"containers": [container]}}}
    spec = {"queueName": queue, "podSets": [pods]}
    return WORKLOAD.compact(msgspec.convert({"metadata": {"name": name}, "spec": spec}, Workload))


def test_gangs_that_differ_in_what_nobody_reads_hold_one_spec_and_others_their_own() -> None:
    one, same, other = _workload("a", queue="q"), _workload("b", queue="q"), _workload("c", queue="r")
    assert one.spec is same.spec
    assert other.spec is not one.spec
    assert (other.spec.queue_name, other.spec.pod_sets) == ("r", one.spec.pod_sets)
    assert one.metadata.name != same.metadata.name


def test_gangs_with_the_same_quota_hold_one_admission_and_the_words_of_conditions_once() -> None:
    """50,000 of them are held."""

    def admitted(name: str, moment: str) -> Workload:
        flavors = {"cpu": "l4", "nvidia.com/gpu": "l4"}
        admission = {"clusterQueue": "q", "podSetAssignments": [{"name": "main", "flavors": flavors}]}
        condition = {"type": "".join(("Quota", "Reserved")), "status": "True", "lastTransitionTime": moment}
        status = {"admission": admission, "conditions": [condition]}
        body = msgspec.json.encode({"metadata": {"name": name}, "status": status})
        return WORKLOAD.compact(msgspec.json.decode(body, type=Workload))

    one, same = admitted("a", "2026-11-21T10:00:00Z"), admitted("b", "2026-11-21T11:00:00Z")
    assert one.status.admission is same.status.admission
    assert one.status.conditions[0].type is same.status.conditions[0].type
    assert one.status.since("QuotaReserved") != same.status.since("QuotaReserved")
    assert one.metadata.labels is same.metadata.labels


def test_a_spec_of_unusual_size_is_not_held_longer_than_its_object() -> None:
    large = "q" * LARGEST_SHARED
    one, same = _workload("a", queue=large), _workload("b", queue=large)
    assert one.spec == same.spec
    assert one.spec is not same.spec


def test_what_is_held_once_is_what_was_decoded() -> None:
    body = {"spec": {"queueName": "q", "active": False, "priority": 7}}
    plain = msgspec.convert(body, Workload)
    assert WORKLOAD.compact(msgspec.convert(body, Workload)) == plain


def test_a_path_is_quoted_where_a_name_may_hold_anything() -> None:
    core = Resource("", "v1", "nodes", "Node", False, THING.type)
    assert core.path(namespace="left-out", name="a/b", subresource="status") == "/api/v1/nodes/a%2Fb/status"
    assert WORKLOAD.path(namespace="x") == "/apis/kueue.x-k8s.io/v1beta2/namespaces/x/workloads"
