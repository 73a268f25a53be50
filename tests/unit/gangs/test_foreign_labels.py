"""An object of another client that has our labels or annotations concerns no gang and stops no reconciler."""

from typing import Any

import msgspec
import pytest

from muster.controller.gangs.indexes import BY_OWNER
from muster.controller.gangs.objects import PLACEHOLDER, Placeholder
from muster.controller.kai.labels import CLUSTER_NAME, CLUSTERS
from muster.controller.kube.resource import Key
from muster.controller.kueue.identity import OWNING_WORKLOAD, WORKLOAD_UID, WORKLOADS
from muster.controller.kueue.jobs import Job, pod_sets_of
from tests.unit.gangs.cached import cached

OWN_NAME = "muster-0123456789abcdef01234567-0-hold-0"


def pod(name: str, **annotations: str) -> Placeholder:
    metadata = {
        "name": name,
        "namespace": "team-a",
        "labels": {WORKLOAD_UID: "x"},
        "annotations": annotations,
    }
    return msgspec.convert({"metadata": metadata}, Placeholder)


@pytest.mark.parametrize(
    ("keys", "annotation"), [(WORKLOADS.keys_of, OWNING_WORKLOAD), (CLUSTERS.keys_of, CLUSTER_NAME)]
)
@pytest.mark.parametrize(
    ("name", "is_noted"), [("train-x", False), ("train-x", True), (OWN_NAME, False)], ids=str
)
def test_a_foreign_pod_with_our_label_leads_to_no_gang(
    keys: Any, annotation: str, name: str, is_noted: bool
) -> None:
    """A key without a name reads a whole collection in place of one object, and fails once a second."""
    foreign = pod(name, **({annotation: "mine"} if is_noted else {}))
    assert keys(foreign) == []
    assert keys(pod(OWN_NAME, **{annotation: "mine"})) == [Key("team-a", "mine")]


def test_a_foreign_pod_is_no_placeholder_of_a_workload() -> None:
    held = cached(PLACEHOLDER, [pod("train-x", **{OWNING_WORKLOAD: "mine"})], **{BY_OWNER: WORKLOADS.keys_of})
    assert held.store.by_index(BY_OWNER, Key("team-a", "mine")) == []


def test_a_number_of_any_length_is_no_fault() -> None:
    """Python refuses to read more than 4,300 digits."""
    least = {"annotations": {"kueue.x-k8s.io/job-min-parallelism": "9" * 5000}}
    spec = {"parallelism": 4, "template": {}}
    job = msgspec.convert({"metadata": {"name": "a", **least}, "spec": spec}, Job)
    assert [each.count for each in pod_sets_of(job)] == [4]
