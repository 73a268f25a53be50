"""In a KAI stack, whose queues are labels that any author of a pod may write."""

from __future__ import annotations

from typing import Final

from muster.model import names
from tests.integration.tenancy.attack import Attack
from tests.integration.tenancy.attacks.sizes import CLUSTERS
from tests.integration.tenancy.cluster import Object
from tests.integration.tenancy.works import (
    changed,
    cluster_spec,
    head,
    labelled,
    named,
    pod,
    ray_cluster,
    ray_job,
    ray_service,
)

OWN: Final = "team-a-l4"
OTHER: Final = "team-b-l4"
_WORK: Final = "muster-work"
_QUEUE: Final = names.KAI_QUEUE_LABEL


def queued(body: Object, queue: str | None = OWN) -> Object:
    """The same work, as KAI's users write it."""
    body = changed(body, "metadata", "labels", value={_QUEUE: queue} if queue else {})
    return changed(body, "spec", "suspend", value=None)


CLUSTER: Final = queued(ray_cluster())
_BEFORE: Final = {
    kind: named(queued(body), f"ordinary-{kind.lower()}")
    for kind, body in (("RayCluster", ray_cluster()), ("RayJob", ray_job()), ("RayService", ray_service()))
}


def _attack(name: str, body: Object, path: str, gains: str, *words: str) -> Attack:
    return Attack(
        name=name,
        body=body,
        before=_BEFORE[body["kind"]],
        gains=gains,
        policy=_WORK,
        path=f"{body['kind']}.{path}",
        words=words,
    )


def _groups(label: str, value: str, gains: str, *words: str) -> tuple[Attack, ...]:
    """A label that KubeRay gives the pods of a group in place of that of their template."""
    found = []
    for place, make in CLUSTERS.items():
        workers = cluster_spec()
        workers["workerGroupSpecs"][0]["labels"] = {label: value}
        for group, spec in (
            ("headGroupSpec", cluster_spec(headGroupSpec=head(labels={label: value}))),
            ("workerGroupSpecs[]", workers),
        ):
            body = queued(make(spec))
            path = f"{place.partition('.')[2]}.{group}.labels{{{label}}}"
            found.append(_attack(f"{label} of a group, in {place}.{group}", body, path, gains, *words))
    return tuple(found)


def _pod(name: str, body: Object) -> Attack:
    return Attack(
        name=name,
        body=body,
        gains="GPUs without quota",
        policy="muster-pods",
        path="Pod.spec.containers[].resources.limits{nvidia.com/*}",
        words=("submit a RayJob",),
        by_rbac=True,
    )


_LABELS: Final = f"metadata.labels{{{_QUEUE}}}"
ALL: Final = (
    *(
        _attack(f"{kind} {name}", queued(body, queue), _LABELS, gains, OWN)
        for kind, body in (
            ("RayCluster", ray_cluster()),
            ("RayJob", ray_job()),
            ("RayService", ray_service()),
        )
        for name, queue, gains in (
            ("in another team's queue", OTHER, "another team's quota"),
            ("in a queue that is no leaf", "research-l4", "the quota of a whole department"),
            ("without a queue", None, "GPUs without quota"),
        )
    ),
    _attack(
        "a priority that is not the team's",
        labelled(CLUSTER, names.KAI_PRIORITY_LABEL, "prod"),
        f"metadata.labels{{{names.KAI_PRIORITY_LABEL}}}",
        "a place before others, and their GPUs by preemption",
        "dev",
    ),
    _attack(
        "a job that nothing stops",
        queued(ray_job(submissionMode="InteractiveMode")),
        "spec.submissionMode",
        "GPUs without end: preemption passes it by",
        "cannot be suspended",
    ),
    *_groups(_QUEUE, OTHER, "another team's quota", "another queue than their job"),
    *_groups(
        names.KAI_PRIORITY_LABEL, "prod", "other teams' GPUs by preemption", "priority prod is not available"
    ),
    *_groups("pod-group-name", "mine", "a gang that no queue counts", "remove kai.scheduler/skip-podgrouper"),
    _pod("a GPU pod by hand", pod()),
    _pod("a GPU pod by hand that names a queue", labelled(pod(), _QUEUE, OWN)),
)
