"""Around the queue: no queue, another team's, an admission or a priority of one's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.integration.tenancy import works
from tests.integration.tenancy.attack import ORDINARY, WRITES, Attack, Way, in_each_template
from tests.integration.tenancy.cluster import Object
from tests.integration.tenancy.works import changed, owner

_WORK: Final = "muster-work"
_WORKS: Final = ("RayJob", "RayCluster", "RayService", "Job", "CronJob")
# Where the labels and annotations are that a queue reads.
_METADATA: Final = {"CronJob": ("spec", "jobTemplate", "metadata")}
_PREBUILT: Final = "kueue.x-k8s.io/prebuilt-workload-name"
_PARAMETER: Final = "provreq.kueue.x-k8s.io/ValidUntilSeconds"
_CONSUME: Final = "autoscaling.x-k8s.io/consume-provisioning-request"
_OLD_CONSUME: Final = "cluster-autoscaler.kubernetes.io/consume-provisioning-request"


def noted(kind: str, field: str, key: str, value: str | None) -> Object:
    """Ordinary work of a kind with one label or annotation changed, where its queue reads it."""
    return changed(ORDINARY[kind], *_METADATA.get(kind, ("metadata",)), field, key, value=value)


def _path(kind: str, *rest: str) -> str:
    return ".".join((kind, *_METADATA.get(kind, ("metadata",)), *rest))


def _around_the_queue(kind: str) -> Iterator[Attack]:
    labels = f"metadata.labels[{works.QUEUE}]"
    yield Attack(
        name=f"{kind} without a queue",
        body=noted(kind, "labels", works.QUEUE, None),
        gains="GPUs without quota",
        policy=_WORK,
        path=_path(kind, f"labels{{{works.QUEUE}}}"),
        words=("work needs a queue", labels, "one of: default"),
    )
    yield Attack(
        name=f"{kind} in another team's queue",
        body=noted(kind, "labels", works.QUEUE, "team-b"),
        gains="another team's quota",
        policy=_WORK,
        path=_path(kind, f"labels{{{works.QUEUE}}}"),
        words=("does not belong to this namespace", labels, "one of: default"),
    )
    yield Attack(
        name=f"{kind} at a priority that is not the team's",
        body=noted(kind, "labels", works.PRIORITY, "prod"),
        gains="a place before others, and their GPUs by preemption",
        policy=_WORK,
        path=_path(kind, f"labels{{{works.PRIORITY}}}"),
        words=("priority prod is not available", "one of: dev"),
    )
    yield Attack(
        name=f"{kind} at a priority that does not exist",
        body=noted(kind, "labels", works.PRIORITY, "highest"),
        gains="a place before others if that priority is made one day",
        policy=_WORK,
        path=_path(kind, f"labels{{{works.PRIORITY}}}"),
        words=("priority highest is not available", "one of: dev"),
    )
    yield Attack(
        name=f"{kind} with a Workload made before",
        body=noted(kind, "labels", _PREBUILT, "mine"),
        gains="an admission for less than the job runs",
        policy=_WORK,
        path=_path(kind, f"labels{{{_PREBUILT}}}"),
        words=("remove the label",),
    )
    yield Attack(
        name=f"{kind} with a Workload made before, by annotation",
        body=noted(kind, "annotations", _PREBUILT, "mine-" + 60 * "x"),
        gains="an admission for less than the job runs",
        policy=_WORK,
        path=_path(kind, f"annotations{{{_PREBUILT}}}"),
        words=("remove the annotation",),
    )
    yield Attack(
        name=f"{kind} with a provisioning parameter",
        body=noted(kind, "annotations", _PARAMETER, "1"),
        gains="capacity on other terms than the platform team's",
        policy=_WORK,
        path=_path(kind, "annotations{provreq.kueue.x-k8s.io/*}"),
        words=("ValidUntilSeconds", "Allowed: maxRunDurationSeconds"),
    )
    if kind != "CronJob":
        yield Attack(
            name=f"{kind} started by hand",
            body=_started(kind),
            gains="GPUs before the queue admits it",
            policy=_WORK,
            path=f"{kind}.spec.{'rayClusterConfig.' if kind == 'RayService' else ''}suspend",
            words=("starts when its queue admits it",),
            # Created unsuspended it is suspended by Kueue's webhook.
            ways=(Way.UPDATE, Way.PATCH),
        )


def _started(kind: str) -> Object:
    where = ("spec", "rayClusterConfig") if kind == "RayService" else ("spec",)
    return changed(ORDINARY[kind], *where, "suspend", value=False)


def _protected(body: Object, name: str, gains: str, *words: str) -> Attack:
    """By hand, what the controllers write: members have no right to it."""
    return Attack(
        name=name,
        body=body,
        gains=gains,
        policy="muster-protected",
        path=str(body["kind"]),
        words=("are not written by hand here", *words),
        by_rbac=True,
    )


def _in_namespace(name: str, field: str, key: str, value: str, gains: str) -> Attack:
    space = works.existing("v1", "Namespace", works.NAMESPACE)
    return Attack(
        name=name,
        body=changed(space, "metadata", field, key, value=value),
        before=space,
        ways=(Way.UPDATE, Way.PATCH),
        gains=gains,
        policy="muster-namespaces",
        path=f"Namespace.metadata.{field}{{{key}}}",
        words=("namespace of a team", "ask the platform team"),
        by_rbac=True,
    )


def _deleting(kind: str, name: str, gains: str) -> Attack:
    return Attack(
        name=f"{kind} deleted",
        body=works.existing("v1", kind, name),
        ways=(Way.DELETE,),
        gains=gains,
        policy="muster-protected",
        path=kind,
        words=("ask the platform team",),
        by_rbac=True,
    )


_NETWORK: Final = works.existing("networking.k8s.io/v1", "NetworkPolicy", "incoming")

ATTACKS: Final = (
    *(attack for kind in _WORKS for attack in _around_the_queue(kind)),
    *in_each_template(
        "a priority class of the cluster's",
        *("spec", "priorityClassName"),
        value="system-cluster-critical",
        gains="every other pod's place on its node",
        policy=_WORK,
        path="spec.priorityClassName",
        words=("remove priorityClassName from the pod templates", works.PRIORITY),
    ),
    *(
        attack
        for key in (_CONSUME, _OLD_CONSUME)
        for attack in in_each_template(
            f"another gang's capacity by {key.partition('/')[0]}",
            "metadata",
            value={"annotations": {key: "another-s"}},
            gains="the nodes that another gang has waited for",
            policy=_WORK,
            path=f"metadata.annotations{{{key.partition('/')[0]}/*}}",
            words=("claim provisioned capacity", "remove those"),
        )
    ),
    _protected(works.WORKLOAD, "a Workload by hand", "an admission of one's own", "delete the job itself"),
    _protected(
        works.QUEUE_OBJECT,
        "a LocalQueue to another team's ClusterQueue",
        "another team's quota",
        "use the queue of this namespace",
    ),
    _protected(works.REQUEST, "a ProvisioningRequest by hand", "nodes without quota", "submit the job"),
    _protected(works.TEMPLATE, "a PodTemplate by hand", "another size of a request than was counted"),
    _protected(works.DOMAIN, "a ComputeDomain by hand", "every channel of a node", "named after the job"),
    _in_namespace(
        *("one's namespace in another team", "labels", "muster.dev/team", "team-b"), "another team's rights"
    ),
    _in_namespace(
        *("another queue for one's namespace", "annotations", "muster.dev/queues", "all"),
        "any queue of the namespace",
    ),
    _in_namespace(
        *("another priority for one's namespace", "annotations", "muster.dev/priorities", "prod"),
        "any priority of the stack",
    ),
    _in_namespace(
        *("Pod Security switched off", "labels", "pod-security.kubernetes.io/enforce", "privileged"),
        "root on every node",
    ),
    Attack(
        name="one's namespace without its team",
        body=works.existing("v1", "Namespace", works.NAMESPACE),
        before=changed(
            works.existing("v1", "Namespace", works.NAMESPACE),
            *("metadata", "labels", "muster.dev/team"),
            value="team-a",
        ),
        ways=(Way.UPDATE, Way.PATCH),
        gains="a namespace in which no policy applies",
        policy="muster-namespaces",
        path="Namespace.metadata.labels{muster.dev/team}",
        words=("namespace of a team", "ask the platform team"),
        by_rbac=True,
    ),
    _deleting("LimitRange", "defaults", "pods that count as nothing in the queue"),
    _deleting("ResourceQuota", "objects", "objects without number"),
    Attack(
        name="an open network",
        body={**_NETWORK, "spec": {"podSelector": {}, "ingress": [{}]}},
        before=_NETWORK,
        ways=WRITES,
        gains="ways in from other teams' pods",
        policy="muster-protected",
        path="NetworkPolicy",
        words=("platform team",),
        by_rbac=True,
    ),
    Attack(
        name="Job that pretends to be made by KubeRay",
        body=changed(
            noted("Job", "labels", works.QUEUE, None),
            *("metadata", "ownerReferences"),
            value=[owner("RayJob", "ray.io/v1", "train")],
        ),
        gains="GPUs without quota",
        policy=_WORK,
        path=f"Job.metadata.labels{{{works.QUEUE}}}",
        also=("muster-owners",),
    ),
)
