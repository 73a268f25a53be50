"""Several teams on one queue: each has namespaces and rights of its own, and the quota is its owner's."""

from typing import Final

import pytest

from muster.model.kueue.tree import nominal_quota, to_tree
from muster.model.stack import Stack
from muster.preview.compare.diff import compare
from muster.render import queues
from muster.render.queuetree import queue_tree, submissions
from tests.unit.model.model_stacks import examined, parsed

_STACK: Final = """\
config:
  muster:cluster: {provider: gke, name: ml, region: us-central1, project: ml-platform, privateEndpoint: true}
  muster:scheduler: %s
  muster:priorities: {urgent: 200, normal: 100, low: 10}
  muster:pools:
    cpu: {machine: e2-standard-4, maxNodes: 10}
    l4: {machine: g2-standard-8, maxNodes: 16}
  muster:departments:
    research:
      teams:
        speech: {queue: vision, members: [speech@example.com], priorities: [urgent, low]}
        vision: {quota: {l4: 8}, members: [vision@example.com], priorities: [normal]}
    sales:
      teams:
        forecast: {quota: {cpu: 1}}
"""


def _stack(scheduler: str = "kueue", *, written: str = "", other: str = "") -> Stack:
    text = _STACK % scheduler
    return parsed(text.replace(written, other) if written else text)


def test_each_team_has_a_local_queue_of_the_owners_cluster_queue() -> None:
    stack = _stack()
    found = queues.objects(stack)
    made = {each["metadata"]["name"]: each for each in found if each["kind"] == "ClusterQueue"}
    assert made.keys() == {"forecast", "vision"}
    selected = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["vision", "speech"]}
    assert made["vision"]["spec"]["namespaceSelector"] == {"matchExpressions": [selected]}
    doors = {
        each["metadata"]["namespace"]: each["spec"]["clusterQueue"]
        for each in found
        if each["kind"] == "LocalQueue"
    }
    assert doors == {"speech": "vision", "vision": "vision", "forecast": "forecast"}
    assert queues.names_by_team(stack)["speech"] == "vision"


@pytest.mark.parametrize("scheduler", ["kueue", "kai"])
def test_a_guest_takes_no_quota_and_offers_what_the_queue_holds(scheduler: str) -> None:
    stack = _stack(scheduler)
    alone = _stack(
        scheduler,
        written="        speech: {queue: vision, members: [speech@example.com], priorities: [urgent, low]}\n",
        other="",
    )
    shared, own = queue_tree(stack).spaces, queue_tree(alone).spaces
    assert shared["speech"].queues == shared["vision"].queues == own["vision"].queues
    assert shared["speech"].priorities == ("urgent", "low")
    assert shared["vision"].priorities == ("normal",)
    assert submissions(stack)["speech"].queues == submissions(stack)["vision"].queues
    kind = "Queue" if scheduler == "kai" else "ClusterQueue"
    figures = [
        [(each["metadata"]["name"], each["spec"].get("resources", each["spec"].get("resourceGroups")))
         for each in queues.objects(side) if each["kind"] == kind]
        for side in (stack, alone)
    ]  # fmt: skip
    assert figures[0] == figures[1]


def test_the_report_judges_the_queue_by_the_priorities_of_all_its_teams() -> None:
    tree = to_tree(_stack())
    assert (tree.nodes["vision"].highest, tree.nodes["vision"].lowest) == (200, 10)
    assert nominal_quota(tree.nodes["vision"], "l4").gpus == 8
    assert "speech" not in tree.nodes


_GUEST: Final = "speech: {queue: vision, members: [speech@example.com], priorities: [urgent, low]}"


@pytest.mark.parametrize(
    ("scheduler", "before", "after", "removed", "row"),
    [
        ("kueue", "", _GUEST, (), (None, "vision")),
        ("kai", "", _GUEST, (), (None, "vision")),
        ("kueue", _GUEST, "", ("speech",), ("vision", None)),
        ("kueue", "speech: {quota: {l4: 0}}", _GUEST, (), (None, "vision")),
        ("kueue", _GUEST, "speech: {quota: {l4: 0}}", (), ("vision", None)),
    ],
)
def test_the_report_has_who_comes_to_a_queue_and_who_leaves_it(
    scheduler: str, before: str, after: str, removed: tuple[str, ...], row: tuple[str | None, str | None]
) -> None:
    base, head = (_stack(scheduler, written=_GUEST, other=side) for side in (before, after))
    changes = compare(base, head)
    assert changes.removed_teams == removed
    assert not changes.is_empty
    assert [(each.before, each.after) for each in changes.settings if each.place == "team speech: queue"] == [
        row
    ]


@pytest.mark.parametrize(
    ("written", "place", "fix"),
    [
        ("{queue: visoin}", "teams.speech.queue:", "did you mean 'vision'?"),
        ("{queue: speech}", "teams.speech.queue:", "remove it"),
        ("{queue: forecast}", "teams.speech.queue: forecast is of department sales", "move one of the two"),
        ("{queue: vision, quota: {l4: 1}}", "teams.speech.quota:", "write it at team vision"),
        ("{queue: vision, borrow: all}", "teams.speech.borrow:", "write it at team vision"),
        ("{queue: vision, queueing: strict}", "teams.speech.queueing:", "write it at team vision"),
        ("{queue: vision, kueue: {stopPolicy: Hold}}", "teams.speech.kueue.stopPolicy:", "team vision"),
        ("{queue: text}\n        text: {queue: vision}", "text has no queue of its own", "`queue: vision`"),
    ],
)
def test_what_a_queue_of_others_refuses(written: str, place: str, fix: str) -> None:
    _, errors = examined((_STACK % "kueue").replace(_GUEST, f"speech: {written}"))
    (error,) = errors
    assert place in error
    assert fix in error


def test_a_guest_may_weigh_its_local_queue_where_the_owner_orders_by_use() -> None:
    guest = "speech: {queue: vision, kueue: {localQueues: {default: {weight: 2}}}}"
    _, (error,) = examined((_STACK % "kueue").replace(_GUEST, guest))
    assert "teams.speech.kueue.localQueues.default.weight" in error
    usage = "vision: {kueue: {admissionScope: {admissionMode: UsageBasedAdmissionFairSharing}}, "
    text = (_STACK % "kueue").replace(_GUEST, guest).replace("vision: {", usage)
    text += "  muster:kueue: {admissionFairSharing: {usageHalfLifeTime: 168h}}\n"
    _, errors = examined(text)
    assert errors == []
