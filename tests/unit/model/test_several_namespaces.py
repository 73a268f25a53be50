"""A team in several namespaces: each is guarded like the first, and all share one queue."""

from typing import Any, Final

import pytest

from muster.model.identities import bound_accounts
from muster.model.stack import Stack
from muster.render import queues, queuetree
from muster.render.queuetree import submissions
from tests.unit.model.model_stacks import examined, parsed

_STACK: Final = """\
config:
  muster:cluster: {provider: gke, name: ml, region: us-central1, project: ml-platform, privateEndpoint: true}
  muster:scheduler: %s
  muster:pools:
    cpu: {machine: e2-standard-4, maxNodes: 10}
    l4: {machine: g2-standard-8, maxNodes: 8}
  muster:departments:
    company:
      teams:
        vision:
          quota: {l4: 8}
          namespaces: [vision, vision-ci]
          identity: vision@data.iam.gserviceaccount.com
          serviceAccounts: {trainer: trainer@data.iam.gserviceaccount.com, viewer: }
          volumes: {data: {storageClass: files, size: 1Ti, namespace: vision}}
"""


def _stack(scheduler: str = "kueue") -> Stack:
    return parsed(_STACK % scheduler)


def _violations(written: str, other: str) -> list[str]:
    assert written in _STACK
    text = (_STACK % "kueue").replace(written, other)
    return examined(text)[1]


def _of(stack: Stack, namespace: str) -> set[tuple[str, str]]:
    return {
        (each["kind"], each["metadata"]["name"])
        for each in queues.objects(stack)
        if namespace in (each["metadata"].get("namespace"), each["metadata"]["name"])
        and each["kind"] not in ("ClusterQueue", "Queue")
    }


@pytest.mark.parametrize("scheduler", ["kueue", "kai"])
def test_each_namespace_is_guarded_like_the_first(scheduler: str) -> None:
    stack = _stack(scheduler)
    first, second = (_of(stack, name) for name in ("vision", "vision-ci"))
    only_first = {("Namespace", "vision"), ("PersistentVolumeClaim", "data")}
    assert first - only_first == second - {("Namespace", "vision-ci")}
    assert ("RoleBinding", "members") in second
    assert queuetree.queue_tree(stack).spaces.keys() == {"vision", "vision-ci"}


def test_the_namespaces_share_one_queue() -> None:
    stack = _stack()
    found = queues.objects(stack)
    (queue,) = [each for each in found if each["kind"] == "ClusterQueue"]
    several = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["vision", "vision-ci"]}
    assert queue["spec"]["namespaceSelector"] == {"matchExpressions": [several]}
    doors = [each for each in found if each["kind"] == "LocalQueue"]
    assert {each["metadata"]["namespace"] for each in doors} == {"vision", "vision-ci"}
    assert {each["spec"]["clusterQueue"] for each in doors} == {"vision"}
    output: dict[str, Any] = submissions(stack)["vision"].output()
    assert (output["namespace"], output["namespaces"]) == ("vision", ["vision", "vision-ci"])


def test_its_own_accounts_act_as_their_identities() -> None:
    stack = _stack()
    accounts = {
        each["metadata"]["name"]: each
        for each in queues.objects(stack)
        if each["kind"] == "ServiceAccount" and each["metadata"]["namespace"] == "vision-ci"
    }
    assert accounts.keys() == {"default", "member", "trainer", "viewer"}
    assert accounts["trainer"]["metadata"]["annotations"] == {
        "iam.gke.io/gcp-service-account": "trainer@data.iam.gserviceaccount.com"
    }
    assert "annotations" not in accounts["viewer"]["metadata"]
    assert not any(each["automountServiceAccountToken"] for each in accounts.values())
    ((_, team),) = stack.teams()
    assert [(each.namespace, each.account) for each in bound_accounts(team)] == [
        ("vision", "default"),
        ("vision", "trainer"),
        ("vision-ci", "default"),
        ("vision-ci", "trainer"),
    ]
    assert len({each.suffix for each in bound_accounts(team)}) == 4


def test_a_volume_stays_in_its_namespace_in_any_order_of_the_list() -> None:
    text = (_STACK % "kueue").replace("[vision, vision-ci]", "[vision-ci, vision]")
    stack = parsed(text)
    assert ("PersistentVolumeClaim", "data") in _of(stack, "vision")
    assert ("PersistentVolumeClaim", "data") not in _of(stack, "vision-ci")


@pytest.mark.parametrize(
    ("other", "place", "fix"),
    [
        ("size: 1Ti", "volumes.data:", "namespace: vision"),
        ("size: 1Ti, namespace: vision-cj", "volumes.data.namespace:", "vision-ci"),
    ],
)
def test_a_volume_of_a_team_in_several_namespaces_names_one_of_them(other: str, place: str, fix: str) -> None:
    (violation,) = _violations("size: 1Ti, namespace: vision", other)
    assert place in violation
    assert fix in violation
