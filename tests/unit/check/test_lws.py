"""A LeaderWorkerSet is judged as Kueue counts it: a group of one leader and its workers, as often as it has
replicas.
"""

from typing import Any

import pytest

from tests.unit.check.stacks import fitting, judged, pod, refusals

Json = dict[str, Any]
SERVED = ["ray", "job", "lws"]


def groups(
    *, gpus: int = 8, size: int = 3, leader: Json | None = None, replicas: int = 2, **spec: Any
) -> Json:
    template: Json = {"size": size, "workerTemplate": pod(gpus), **spec}
    if leader is not None:
        template["leaderTemplate"] = leader
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "serve"},
        "spec": {"replicas": replicas, "leaderWorkerTemplate": template},
    }


def after_leaders() -> Json:
    body = groups()
    body["spec"]["startupPolicy"] = "LeaderReady"
    return body


def test_a_group_is_counted_and_gets_what_an_author_may_leave_out() -> None:
    found = judged(groups(leader=pod()), work=SERVED)
    assert found.answer.is_admitted, refusals(found)
    assert {each.name: each.pods for each in found.demands} == {"leader": 1, "worker": 2}
    assert fitting(found, "worker") == {"h100"}
    filled = dict(found.answer.filled)
    assert "spec.leaderWorkerTemplate.workerTemplate.spec.tolerations" in filled


def test_without_a_template_of_its_own_the_leader_is_one_of_the_workers() -> None:
    assert [(each.name, each.pods) for each in judged(groups(), work=SERVED).demands] == [("worker", 3)]


def test_a_group_that_no_queue_holds_is_refused_and_more_groups_wait() -> None:
    """The queue has 32 of these GPUs."""
    assert judged(groups(size=4, replicas=9), work=SERVED).answer.is_admitted
    assert "worker" in refusals(judged(groups(size=5, replicas=1), work=SERVED))


@pytest.mark.parametrize(
    ("body", "fix"),
    [
        (groups(volumeClaimTemplates=[{"metadata": {"name": "data"}}]), "mount a claim of the team"),
        (groups(leader={"metadata": {"labels": {"leaderworkerset.sigs.k8s.io/group-index": "0"}}, **pod()}),
         "remove leaderworkerset.sigs.k8s.io/group-index"),
        (groups(leader={"metadata": {"annotations": {"kueue.x-k8s.io/pod-suspending-parent": "x"}}, **pod()}),
         "remove kueue.x-k8s.io/pod-suspending-parent"),
        (groups(leader=pod(restartPolicy="Never")), "leaderTemplate: remove restartPolicy"),
        (groups(leader=pod(hostNetwork=True)), "In spec.leaderWorkerTemplate.leaderTemplate"),
    ],
)  # fmt: skip
def test_what_would_pass_the_queue_or_never_start_is_refused(body: Json, fix: str) -> None:
    assert fix in refusals(judged(body, work=SERVED))
