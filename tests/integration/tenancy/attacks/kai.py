"""In a KAI stack, whose queues are labels that any author of a pod may write."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from muster.model import names
from tests.integration.tenancy.attack import Attack
from tests.integration.tenancy.attacks.sizes import CLUSTERS
from tests.integration.tenancy.cluster import Object
from tests.integration.tenancy.works import (
    TEMPLATES,
    changed,
    cluster_spec,
    head,
    in_template,
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
_RESERVED: Final = "muster-reserved"
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


def _groups(label: str, value: str, gains: str, *words: str, policy: str = _WORK) -> tuple[Attack, ...]:
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
            attack = _attack(f"{label} of a group, in {place}.{group}", body, path, gains, *words)
            found.append(replace(attack, policy=policy))
    return tuple(found)


# What only KAI writes, and what a tenant gains by writing it: the object's, and those of its pods.
_OF_KAI: Final = (
    (
        "annotations",
        "kai.scheduler/last-start-timestamp",
        "2099-01-01T00:00:00Z",
        "borrowed GPUs for good: a gang that has yet to start is not reclaimed",
    ),
    (
        "annotations",
        "kai.scheduler/stale-podgroup-timestamp",
        "2099-01-01T00:00:00Z",
        "a gang that never ends",
    ),
    (
        "annotations",
        "kai.scheduler/staleness-grace-period",
        "87600h",
        "GPUs for an incomplete gang, for good",
    ),
    ("annotations", "kai.scheduler/preemption-delay", "1s", "a turn that the platform team did not give"),
    ("annotations", "runai/shared-gpu-configmap", "theirs", "the devices of another team's pod"),
    ("annotations", "received-resource-type", "Fraction", "a GPU that counts as a part"),
    ("annotations", "kai.scheduler/top-owner-metadata", "{}", "what its gang belongs to, in KAI's account"),
    ("annotations", "run.ai/reserve_for_gpu_index", "0", "a GPU that another pod has"),
    ("labels", "kai.scheduler/task-priority", "9", "pods that are the last of their gang to go"),
    ("labels", "app", "kai-resource-reservation", "a node that seems free to KAI: others' pods fail on it"),
    ("labels", "app", "scaling-pod", "CPUs of a node that KAI's fair shares count as free"),
    ("labels", "kai.scheduler/preemptibility", "non-preemptible", "GPUs that no priority takes back"),
    ("labels", "kai.scheduler/node-pool", "h100", "nodes of another pool"),
    ("labels", "kai.scheduler/subgroup-name", "x", "a place in another part of its gang"),
    ("labels", "kai.scheduler/made-up", "x", "any meaning that a later version gives it"),
    ("labels", "runai-gpu-group", "x", "the memory of another team's GPU"),
    ("labels", "runai-gpu-group/x", "x", "the memory of another team's GPUs"),
)


def _reserved() -> Iterator[Attack]:
    """On the object, whose keys KAI copies to the PodGroup, and in turn on the pods of each kind."""
    places = [place for place in TEMPLATES if "GroupSpec" in place]
    for turn, (field, key, value, gains) in enumerate(_OF_KAI):
        kind, place = list(_BEFORE)[turn % len(_BEFORE)], places[turn % len(places)]
        for where, body in (
            (kind, named(changed(_BEFORE[kind], "metadata", field, key, value=value), "noted")),
            (place, queued(in_template(place, "metadata", field, key, value=value))),
        ):
            yield Attack(
                name=f"{key}={value} in {where}",
                body=body,
                before=_BEFORE[body["kind"]],
                gains=gains,
                policy=_RESERVED,
                path=f"{where}.metadata.{field}{{{key}}}",
                words=(f"remove {key} from", "are reserved for controllers", "of kai.scheduler/ queue"),
            )


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
    *(
        _attack(
            f"a priority that is not the team's, by {label}",
            labelled(CLUSTER, label, "prod"),
            f"metadata.labels{{{label}}}",
            "a place before others, and their GPUs by preemption",
            "dev",
        )
        for label in (names.KAI_PRIORITY_LABEL, names.RAY_PRIORITY_LABEL)
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
    *_reserved(),
    *_groups(
        "kai.scheduler/preemptibility",
        "non-preemptible",
        "GPUs for good",
        "remove kai.scheduler/",
        policy=_RESERVED,
    ),
    *_groups(
        "app", "kai-resource-reservation", "a node that seems free", "remove app from", policy=_RESERVED
    ),
    *_groups("pod-group-name", "mine", "a gang that no queue counts", "remove kai.scheduler/skip-podgrouper"),
    _pod("a GPU pod by hand", pod()),
    _pod("a GPU pod by hand that names a queue", labelled(pod(), _QUEUE, OWN)),
)
