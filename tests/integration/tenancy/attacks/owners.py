"""What a controller made: taken from its owner, given to another, or changed under its hands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tests.integration.tenancy import works
from tests.integration.tenancy.attack import CHANGES, ORDINARY, Attack, Way
from tests.integration.tenancy.cluster import Object
from tests.integration.tenancy.works import changed, named, owner

_POLICY: Final = "muster-owners"
_QUEUED: Final = ("is not queued on its own", "leave what its controller wrote")
_KUBERAYS: Final = "and only its controller changes or deletes it; change or delete RayJob train"
_UNSTOPPED: Final = "GPUs without quota: Kueue takes running work for its owner's, and nothing stops it"
_LARGER: Final = "GPUs without quota: the cluster grows, and Kueue has counted its owner"
_ENDLESS: Final = "a RayJob that never ends: KubeRay keeps its finalizer, and Kueue has given the quota back"
_NIGHTLY: Final = owner("CronJob", "batch/v1", "nightly")


def of(body: Object, *references: Object) -> Object:
    return changed(body, "metadata", "ownerReferences", value=list(references))


def made_by_kuberay(body: Object, kind: str = "RayJob", name: str = "train") -> Object:
    return of(body, owner(kind, "ray.io/v1", name))


# Of a Job that a CronJob made, each way to change its owner.
_REFERENCES: Final[dict[str, Any]] = {
    "apiVersion": "batch/v1beta1",
    "kind": "Deployment",
    "name": "weekly",
    "uid": "another",
    "blockOwnerDeletion": True,
    "controller": False,
}


def _added() -> Iterator[Attack]:
    cron = {"RayCronJob": works.ray_cron_job()}
    for kind, body in (ORDINARY | cron).items():
        if kind == "Service":
            continue
        train = owner("RayJob", "ray.io/v1", "train")
        yield Attack(
            name=f"{kind} with a controller as its owner",
            body=of(body, train),
            gains="GPUs without quota: Kueue counts the owner alone",
            policy=_POLICY,
            path=f"{kind}.metadata.ownerReferences[].controller",
            words=(*_QUEUED, "remove metadata.ownerReferences"),
            by_rbac=kind in cron,
        )
        yield Attack(
            name=f"{kind} whose owner becomes its controller in a second step",
            body=of(body, train),
            before=named(of(body, train | {"controller": False}), f"{kind.lower()}-with-an-owner"),
            ways=CHANGES,
            gains=_UNSTOPPED,
            policy=_POLICY,
            path=f"{kind}.metadata.ownerReferences[].controller",
            words=_QUEUED,
            by_rbac=kind in cron,
        )
    at = ("spec", "jobTemplate", "metadata", "ownerReferences")
    yield Attack(
        name="CronJob that names a controller as the owner of its Jobs",
        body=changed(works.cron_job(), *at, value=[owner("RayJob", "ray.io/v1", "mine")]),
        gains="GPUs without quota: Kueue counts the owner alone",
        policy=_POLICY,
        path="CronJob.spec.jobTemplate.metadata.ownerReferences[].controller",
        words=("is not queued on its own", "remove spec.jobTemplate.metadata.ownerReferences"),
    )


def _taken() -> Iterator[Attack]:
    standing = named(of(works.job(), _NIGHTLY), "nightly-1")
    for field, value in _REFERENCES.items():
        yield Attack(
            name=f"Job of a CronJob whose owner has another {field}",
            body=of(works.job(), _NIGHTLY | {field: value}),
            before=standing,
            made_by="cronjobs",
            ways=CHANGES,
            gains=_UNSTOPPED,
            policy=_POLICY,
            path=f"Job.metadata.ownerReferences[].{field}",
            words=_QUEUED,
        )
    yield Attack(
        name="Job of a CronJob with another owner beside it",
        body=of(works.job(), _NIGHTLY, owner("Job", "batch/v1", "mine") | {"controller": False}),
        before=standing,
        made_by="cronjobs",
        ways=CHANGES,
        gains="the end of what runs at a time of its choice, by an owner that it deletes",
        policy=_POLICY,
        path="Job.metadata.ownerReferences[].uid",
        words=_QUEUED,
    )


def _grown() -> Iterator[Attack]:
    """Owner and size in one patch, and in two."""
    more = works.ray_cluster(suspend=False, **works.cluster_spec(workers=12))
    running = works.ray_cluster(suspend=False)
    for kind in ("RayJob", "RayService"):
        before = named(made_by_kuberay(running, kind), f"cluster-of-a-{kind.lower()}")
        for what, body in (
            ("freed of its owner and made larger", of(more)),
            ("made larger", made_by_kuberay(more, kind)),
        ):
            yield Attack(
                name=f"RayCluster of a {kind} {what}",
                body=body,
                before=before,
                made_by="kuberay",
                ways=CHANGES,
                gains=_LARGER,
                policy=_POLICY,
                path="RayCluster.metadata.ownerReferences[].controller",
            )


def _kept() -> Iterator[Attack]:
    """What KubeRay needs to end its work."""
    cluster, job, service = works.ray_cluster(), works.job(), works.service()
    secret = works.existing("v1", "Secret", "train-x1", data={"auth_token": "eA=="})
    account = works.existing("v1", "ServiceAccount", "train-x1")
    for before, after in (
        (cluster, works.annotated(cluster, "ray.io/ft-enabled", "false")),
        (secret, changed(secret, "data", "auth_token", value=None)),
        (job, changed(job, "spec", "backoffLimit", value=0)),
        (service, changed(service, "spec", "selector", "app", value="x")),
        (account, works.labelled(account, "a", "b")),
    ):
        kind = before["kind"]
        yield Attack(
            name=f"{kind} of a RayJob changed or deleted",
            body=made_by_kuberay(after),
            before=named(made_by_kuberay(before), f"kept-{kind.lower()}"),
            made_by="kuberay",
            ways=(*CHANGES, Way.DELETE),
            gains=_ENDLESS,
            policy=_POLICY,
            path=f"{kind}.metadata.ownerReferences[].controller",
            words=(f"{kind} kept-{kind.lower()} was created for RayJob train", _KUBERAYS),
            by_rbac=kind == "ServiceAccount",
        )


def _taken_first() -> Iterator[Attack]:
    """Written between the name of the cluster and its Secret, and emptied when the job runs."""
    token = {"auth_token": "eA=="}
    for name, of_what in (("train-bcd24", "a RayJob's cluster"), ("llm-zzzzz", "a RayService's cluster")):
        secret = works.existing("v1", "Secret", name, data=token)
        yield Attack(
            name=f"Secret with the name of {of_what}",
            body=secret,
            gains=_ENDLESS,
            policy=_POLICY,
            path="Secret.metadata.name",
            words=(f"Secret {name} could be taken for the token of a Ray cluster", "choose a metadata.name"),
        )
    yield Attack(
        name="Secret with a drawn name",
        body=named({**secret, "metadata": {**secret["metadata"], "generateName": "train-"}}, ""),
        gains=_ENDLESS,
        policy=_POLICY,
        path="Secret.metadata.generateName",
        words=("choose a metadata.name",),
    )


ATTACKS: Final = (*_taken_first(), *_added(), *_taken(), *_grown(), *_kept())
