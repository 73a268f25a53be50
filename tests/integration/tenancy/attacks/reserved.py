"""Labels, annotations and names that controllers find their own objects by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.integration.tenancy import works
from tests.integration.tenancy.attack import Attack, Way, in_each_template
from tests.integration.tenancy.cluster import Object
from tests.integration.tenancy.works import annotated, changed, labelled, named

_POLICY: Final = "muster-reserved"
_CONTROLLERS: Final = "labels or annotations that are reserved for controllers"

# Keys, and what one would have gained.
LABELS: Final = {
    "muster.dev/workload-uid": "a pod that is counted as another gang's placeholder, and a trace a second",
    "muster.dev/team": "another team's share in reports",
    "muster.dev/made-up": "any meaning that a later version gives it",
    "kueue.x-k8s.io/podset": "a pod that is let start in place of one that was counted",
    "kueue.x-k8s.io/managed": "a job that Kueue believes to have admitted",
    "kueue.x-k8s.io/made-up": "any meaning that a later version gives it",
}
ANNOTATIONS: Final = {
    "muster.dev/lease-ends": "a notice that a lease ends, which evicts the gang or keeps it",
    "muster.dev/pods": "a number that the controller reads",
    "kueue.x-k8s.io/workload": "another job's quota",
    "kueue.x-k8s.io/workload-slice-replacement-for": "another slice's nodes",
    "kueue.x-k8s.io/priority-boost": "a place before others in the queue",
}
WORK: Final[dict[str, Object]] = {
    "RayJob": works.ray_job(),
    "RayCluster": works.ray_cluster(),
    "RayService": works.ray_service(),
    "Job": works.job(),
    "CronJob": works.cron_job(),
}
_LOADED: Final[dict[str, Object]] = {
    "ConfigMap": works.existing("v1", "ConfigMap", "plain"),
    "Secret": works.existing("v1", "Secret", "plain"),
}
_PLAIN: Final[dict[str, Object]] = {**_LOADED, "Service": works.service(name="plain")}
_BY_RBAC: Final[dict[str, Object]] = {
    "Pod": works.pod(0, name="plain"),
    "ServiceAccount": works.existing("v1", "ServiceAccount", "plain"),
}


def _object_keys() -> tuple[Attack, ...]:
    """On the object itself: every key on one kind, and one key on every kind."""
    found: list[Attack] = []
    for kind, body in WORK.items():
        labels = LABELS if kind in ("RayJob", "Job") else ["muster.dev/workload-uid"]
        notes = ANNOTATIONS if kind in ("RayJob", "Job") else ["muster.dev/lease-ends"]
        for keys, field, write in ((labels, "labels", labelled), (notes, "annotations", annotated)):
            found += [
                Attack(
                    name=f"{key} among the {field} of a {kind}",
                    body=write(body, key, "x"),
                    gains={**LABELS, **ANNOTATIONS}[key],
                    policy=_POLICY,
                    path=f"{kind}.metadata.{field}{{{key}}}",
                    words=(_CONTROLLERS, f"remove {key} from metadata.{field}"),
                )
                for key in keys
            ]
    return tuple(found)


def _other_kinds() -> tuple[Attack, ...]:
    return tuple(
        Attack(
            name=f"muster.dev/workload-uid on a {kind}",
            body=labelled(body, "muster.dev/workload-uid", "x"),
            gains=LABELS["muster.dev/workload-uid"],
            policy=_POLICY,
            path=f"{kind}.metadata.labels{{muster.dev/workload-uid}}",
            words=(_CONTROLLERS, "remove muster.dev/workload-uid from metadata.labels"),
            by_rbac=kind in _BY_RBAC,
            before=named(body, f"plain-{kind.lower()}"),
        )
        for kind, body in {**_PLAIN, **_BY_RBAC}.items()
    )


def _templates() -> tuple[Attack, ...]:
    """Annotations; labels of pods are in labels.py."""
    key = "muster.dev/attempt"
    return in_each_template(
        f"{key} on its pods",
        *("metadata", "annotations", key),
        value="x",
        gains="a gate that is lifted as if the gang had its nodes",
        policy=_POLICY,
        words=(_CONTROLLERS, f"remove {key} from "),
        path=f"metadata.annotations{{{key}}}",
    )


def _names() -> tuple[Attack, ...]:
    return tuple(
        Attack(
            name=f"{kind} with a name of ours",
            body=named(body, "muster-0123456789abcdef01234567"),
            gains="a gang that finds the name of its request taken and is never provisioned",
            policy=_POLICY,
            path=f"{kind}.metadata.name",
            words=("names that begin with muster- are reserved for Muster",),
            by_rbac=kind in _BY_RBAC,
            ways=(Way.CREATE,),
        )
        for kind, body in {**WORK, **_PLAIN, **_BY_RBAC}.items()
    )


def _heads() -> Iterator[Attack]:
    """A second head of a cluster, and a second Service of its head: KubeRay refuses to choose. Each has
    one of the labels that it would need: a refusal names several in any order.
    """
    of_pod, of_service = {"ray.io/node-type": "head"}, {"ray.io/identifier": "notebook-head"}
    embedded: Object = {"metadata": {"labels": of_service}, "spec": {"ports": [{"port": 8000}]}}
    by_hand, at = works.service(name="second"), ("template", "metadata", "labels")
    submitter = works.template(restart="Never") | {"metadata": {"labels": of_pod}}
    for name, body, path, labels in (
        (
            "RayService with a second Service of a head",
            works.ray_service(serveService=embedded),
            "RayService.spec.serveService",
            of_service,
        ),
        (
            "Service by hand as a second one of a head",
            changed(by_hand, "metadata", "labels", value=of_service),
            "Service",
            of_service,
        ),
        (
            "Job whose pod is a second head",
            changed(works.job(), "spec", *at, value=of_pod),
            "Job.spec.template",
            of_pod,
        ),
        (
            "CronJob whose pod is a second head",
            changed(works.cron_job(), "spec", "jobTemplate", "spec", *at, value=of_pod),
            "CronJob.spec.jobTemplate.spec.template",
            of_pod,
        ),
        (
            "RayJob whose submitter is a second head",
            works.ray_job(submissionMode="K8sJobMode", submitterPodTemplate=submitter),
            "RayJob.spec.submitterPodTemplate",
            of_pod,
        ),
        (
            "Pod by hand as a second head",
            changed(works.pod(0), "metadata", "labels", value=of_pod),
            "Pod",
            of_pod,
        ),
    ):
        (key,) = labels
        yield Attack(
            name=name,
            body=body,
            gains="GPUs without quota: KubeRay stops no pod of a cluster with two heads",
            policy=_POLICY,
            path=f"{path}.metadata.labels{{{key}}}",
            words=(_CONTROLLERS, key, "metadata.labels"),
            by_rbac=body["kind"] in _BY_RBAC,
            before=named(by_hand, "first") if body["kind"] == "Service" else None,
        )


# What Grafana's sidecar loads of every namespace.
_GRAFANAS: Final = {
    "grafana_dashboard": "the operators' dashboard, overwritten",
    "grafana_datasource": "an address inside the cluster that Grafana reads for it, with its credentials",
    "grafana_alert": "an alert of the operators, overwritten or silenced",
}
_FOREIGN: Final = {"muster.dev/workload-uid": "x"}

ATTACKS: Final[tuple[Attack, ...]] = (
    *_object_keys(),
    *_other_kinds(),
    *_templates(),
    *_names(),
    Attack(
        name="a label of ours on the jobs of a CronJob",
        body=changed(
            works.cron_job(),
            *("spec", "jobTemplate", "metadata", "labels"),
            value={works.QUEUE: "default", works.PRIORITY: "dev", **_FOREIGN},
        ),
        gains=LABELS["muster.dev/workload-uid"],
        policy=_POLICY,
        path="CronJob.spec.jobTemplate.metadata.labels{muster.dev/workload-uid}",
        words=("from spec.jobTemplate.metadata.labels",),
    ),
    *(
        Attack(
            name=f"a label of ours on the pods of a {kind}",
            body=changed(body, *("spec", "template", "metadata", "labels"), value={"app": "web", **_FOREIGN}),
            gains=LABELS["muster.dev/workload-uid"],
            policy=_POLICY,
            path=f"{kind}.spec.template.metadata.labels{{muster.dev/workload-uid}}",
            # The API server gives a ReplicationController the labels of its template, too.
            words=("remove muster.dev/workload-uid from ",),
            by_rbac=True,
        )
        for kind, body in works.UNQUEUED.items()
    ),
    *(
        Attack(
            name=f"{kind} with label {label}",
            body=labelled(body, label, "1"),
            gains=gains,
            policy=_POLICY,
            path=f"{kind}.metadata.labels{{{label}}}",
            words=(_CONTROLLERS, f"remove {label} from metadata.labels"),
            before=named(body, f"plain-{kind.lower()}"),
        )
        for kind, body in _LOADED.items()
        for label, gains in _GRAFANAS.items()
    ),
    Attack(
        name="workers that Ray resizes in place",
        body=annotated(works.ray_cluster(), "ray.io/ippr", "{}"),
        gains="CPUs and memory that no queue has counted",
        policy=_POLICY,
        path="RayCluster.metadata.annotations{ray.io/ippr}",
        words=("remove ray.io/ippr from metadata.annotations",),
    ),
    *_heads(),
)
