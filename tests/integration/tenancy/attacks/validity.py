"""Changes after which KubeRay takes a Ray object for invalid, and neither stops nor deletes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tests.integration.tenancy import works
from tests.integration.tenancy.attack import CHANGES, Attack
from tests.integration.tenancy.attacks.sizes import CLUSTERS
from tests.integration.tenancy.cluster import Object
from tests.integration.tenancy.works import (
    annotated,
    changed,
    cluster_spec,
    head,
    labelled,
    named,
    template,
)

_POLICY: Final = "muster-ray-valid"
_GAINS: Final = "GPUs without quota: Kueue gives it to others, and KubeRay stops nothing"
_INVALID: Final = "and neither start nor stop it"
_TOKEN: Final = {"mode": "token"}
_REDIS: Final = {"redisAddress": "redis:6379"}
_FT: Final = "ray.io/ft-enabled"
_ELASTIC: Final = "kueue.x-k8s.io/elastic-job"


def _head(**fields: Any) -> Object:
    return cluster_spec(headGroupSpec=head(**fields))


def _workers(**fields: Any) -> Object:
    spec = cluster_spec()
    spec["workerGroupSpecs"][0] |= fields
    return spec


def _env(name: str, value: str = "1", **spec: Any) -> Object:
    found = template()
    found["spec"]["containers"][0]["env"] = [{"name": name, "value": value}]
    return _head(template=found) | spec


# In a cluster of any kind: the field, what is written, and what the refusal says to write instead.
_IN_CLUSTERS: Final[tuple[tuple[str, str, Object, str], ...]] = (
    (
        "labels among the head's flags",
        "headGroupSpec.rayStartParams{}",
        _head(rayStartParams={"labels": "a=b"}),
        "write labels of rayStartParams into labels",
    ),
    (
        "labels among the workers' flags",
        "workerGroupSpecs[].rayStartParams{}",
        _workers(rayStartParams={"labels": ""}),
        "write labels of rayStartParams into labels",
    ),
    (
        "a label of the head that is none",
        "headGroupSpec.labels{}",
        _head(labels={"a": "b c"}),
        "write labels that Kubernetes takes",
    ),
    (
        "a label of workers with a key that is none",
        "workerGroupSpecs[].labels{}",
        _workers(labels={"/": "b"}),
        "write labels that Kubernetes takes",
    ),
    (
        "a label of workers with a long domain",
        "workerGroupSpecs[].labels{}",
        _workers(labels={"a" * 254 + "/b": "c"}),
        "write labels that Kubernetes takes",
    ),
    (
        "resources of the head said twice",
        "headGroupSpec.resources{}",
        _head(rayStartParams={"num-gpus": "1"}, resources={"GPU": "1"}),
        "remove resources, or num-cpus",
    ),
    (
        "resources of workers said twice",
        "workerGroupSpecs[].resources{}",
        _workers(rayStartParams={"memory": "1"}, resources={"CPU": "1"}),
        "remove resources, or num-cpus",
    ),
    (
        "an idle timeout without an autoscaler",
        "workerGroupSpecs[].idleTimeoutSeconds",
        _workers(idleTimeoutSeconds=60),
        "remove idleTimeoutSeconds",
    ),
    (
        "a negative idle timeout of a group",
        "workerGroupSpecs[].idleTimeoutSeconds",
        _workers(idleTimeoutSeconds=-1) | {"autoscalerOptions": {"version": "v2"}},
        "remove idleTimeoutSeconds",
    ),
    (
        "a negative idle timeout",
        "autoscalerOptions.idleTimeoutSeconds",
        cluster_spec(autoscalerOptions={"idleTimeoutSeconds": -1}),
        "autoscalerOptions.idleTimeoutSeconds to 0 or more",
    ),
    (
        "a head without a container",
        "headGroupSpec.rayStartParams{}",
        _head(template={"spec": {"containers": []}}),
        "add a container to",
    ),
    (
        "Redis by a variable",
        "gcsFaultToleranceOptions.redisAddress",
        _env("RAY_REDIS_ADDRESS", "redis:6379"),
        "write RAY_REDIS_ADDRESS into gcsFaultToleranceOptions",
    ),
    (
        "Redis by a variable and by a field",
        "gcsFaultToleranceOptions.redisAddress",
        _env("RAY_REDIS_ADDRESS", "redis:6379", gcsFaultToleranceOptions=_REDIS),
        "remove RAY_REDIS_ADDRESS and REDIS_PASSWORD from the head",
    ),
    (
        "the password of Redis by a variable",
        "gcsFaultToleranceOptions.redisAddress",
        _env("REDIS_PASSWORD", "x", gcsFaultToleranceOptions=_REDIS),
        "remove RAY_REDIS_ADDRESS and REDIS_PASSWORD from the head",
    ),
    (
        "the password of Redis by a flag",
        "headGroupSpec.rayStartParams{}",
        _head(rayStartParams={"redis-password": "x"}) | {"gcsFaultToleranceOptions": _REDIS},
        "redis-password",
    ),
    (
        "the user of Redis by a flag",
        "headGroupSpec.rayStartParams{}",
        _head(rayStartParams={"redis-username": "x"}),
        "gcsFaultToleranceOptions.redisUsername",
    ),
    (
        "the user of Redis by a variable",
        "gcsFaultToleranceOptions.redisAddress",
        _env("REDIS_USERNAME", "x"),
        "gcsFaultToleranceOptions.redisUsername",
    ),
    (
        "an autoscaler's version without one",
        "autoscalerOptions.version",
        _env("RAY_enable_autoscaler_v2", "true"),
        "remove RAY_enable_autoscaler_v2 from the head",
    ),
    ("a version that is none", "rayVersion", cluster_spec(rayVersion="02.54.0"), "set rayVersion to 2.52.0"),
    (
        "a version of a large number",
        "rayVersion",
        cluster_spec(rayVersion="2.54." + "9" * 20),
        "set rayVersion",
    ),
    (
        "a token of Kubernetes with a Secret",
        "authOptions.enableK8sTokenAuth",
        cluster_spec(
            rayVersion="2.55.0", authOptions=_TOKEN | {"enableK8sTokenAuth": True, "secretName": "x"}
        ),
        "remove authOptions.enableK8sTokenAuth",
    ),
    (
        "a token of Kubernetes in an older version",
        "authOptions.enableK8sTokenAuth",
        cluster_spec(authOptions=_TOKEN | {"enableK8sTokenAuth": True}),
        "set rayVersion to 2.55.0",
    ),
)


def _in_clusters() -> Iterator[Attack]:
    """One rule judges each in every kind, so they take turns."""
    for turn, (name, field, spec, fix) in enumerate(_IN_CLUSTERS):
        place = list(CLUSTERS)[turn % len(CLUSTERS)]
        yield Attack(
            name=f"{name}, in {place}",
            body=CLUSTERS[place](spec),
            gains=_GAINS,
            policy=_POLICY,
            path=f"{place}.{field}",
            words=(_INVALID, fix),
        )


def _scaled() -> Iterator[Attack]:
    """Of a cluster that has an autoscaler. By a change it becomes elastic as well."""
    v2 = {"enableInTreeAutoscaling": True, "autoscalerOptions": {"version": "v2"}}
    for name, field, spec in (
        ("its version said twice", "autoscalerOptions.version", _env("RAY_enable_autoscaler_v2") | v2),
        ("a group that is suspended", "workerGroupSpecs[].suspend", _workers(suspend=True) | v2),
        ("a head that restarts", "autoscalerOptions.version", cluster_spec() | v2),
    ):
        yield Attack(
            name=f"a cluster that scales itself with {name}",
            body=annotated(works.ray_cluster(**spec), _ELASTIC, "true"),
            gains=_GAINS,
            policy=_POLICY,
            path=f"RayCluster.spec.{field}",
            words=(_INVALID,),
            also=("muster-growth",),
        )


def _noted() -> Iterator[Attack]:
    for place, make in CLUSTERS.items():
        kind = place.partition(".")[0]
        for key in (_FT, "ray.io/external-storage-namespace"):
            yield Attack(
                name=f"annotation {key} beside the field of a {kind}",
                body=annotated(make(cluster_spec(gcsFaultToleranceOptions=_REDIS)), key, "false"),
                gains="GPUs for good: a finalizer keeps the cluster after its deletion",
                policy=_POLICY,
                path=f"{kind}.metadata.annotations{{{key}}}",
                words=(_INVALID, f"annotation {key}"),
            )
    origin = "ray.io/originated-from-crd"
    yield Attack(
        name="RayCluster that says it is a RayJob's",
        body=labelled(works.ray_cluster(upgradeStrategy={"type": "None"}), origin, "RayJob"),
        gains=_GAINS,
        policy=_POLICY,
        path=f"RayCluster.metadata.labels{{{origin}}}",
        words=(_INVALID, f"remove label {origin}"),
    )


def _of_jobs() -> Iterator[Attack]:
    sidecar = {"submissionMode": "SidecarMode"}
    restarts = cluster_spec(headGroupSpec=head(template=template(restart="OnFailure")))
    for field, fix, spec in (
        ("backoffLimit", "set spec.backoffLimit to 0 or more", {"backoffLimit": -1}),
        ("activeDeadlineSeconds", "set spec.activeDeadlineSeconds to 1", {"activeDeadlineSeconds": 0}),
        ("ttlSecondsAfterFinished", "set spec.ttlSecondsAfterFinished to 0", {"ttlSecondsAfterFinished": -1}),
        (
            "submitterConfig.backoffLimit",
            "remove spec.submitterPodTemplate and spec.submitterConfig",
            sidecar | {"submitterConfig": {"backoffLimit": 1}},
        ),
        ("submissionMode", "set restartPolicy of the head to Never", sidecar | {"rayClusterSpec": restarts}),
        (
            "rayClusterSpec.headGroupSpec.rayStartParams{}",
            "write spec.rayClusterSpec",
            {"rayClusterSpec": None},
        ),
    ):
        yield Attack(
            name=f"RayJob with {field} that KubeRay refuses",
            body=works.ray_job(**spec),
            gains="the quota of a running job, whose GPUs it keeps",
            policy=_POLICY,
            path=f"RayJob.spec.{field}",
            words=(_INVALID, fix),
        )
    yield Attack(
        name="RayJob whose runtime environment becomes unreadable",
        body=works.ray_job(runtimeEnvYAML="{"),
        ways=CHANGES,
        gains="the quota of a running job, whose GPUs it keeps",
        policy=_POLICY,
        path="RayJob.spec.runtimeEnvYAML",
        words=("leave spec.runtimeEnvYAML as it is", "create a new RayJob"),
    )


def _of_services() -> Iterator[Attack]:
    key = "ray.io/initializing-timeout"
    for value in ("soon", "0s", "99999999999h", "-5m"):
        yield Attack(
            name=f"RayService with a timeout of {value}",
            body=annotated(works.ray_service(), key, value),
            gains=_GAINS,
            policy=_POLICY,
            path=f"RayService.metadata.annotations{{{key}}}",
            words=(_INVALID, f"write annotation {key} as 30m"),
        )
    spec = _head(headService={"metadata": {"name": "mine"}})
    yield Attack(
        name="RayService that names its head's Service",
        body=works.ray_service(rayClusterConfig={**spec, "suspend": True}),
        gains=_GAINS,
        policy=_POLICY,
        path="RayService.spec.rayClusterConfig.headGroupSpec.headService.metadata.name",
        words=(_INVALID, "remove spec.rayClusterConfig.headGroupSpec.headService.metadata.name"),
    )


def _unstopped() -> Iterator[Attack]:
    """Changes of a cluster that is valid, after which KubeRay fails before it comes to the pods."""
    plain, serves = works.ray_cluster(), "ray.io/enable-serve-service"
    tolerant = works.ray_cluster(gcsFaultToleranceOptions=_REDIS)
    elastic = annotated(
        works.ray_cluster(
            enableInTreeAutoscaling=True, headGroupSpec=head(template=template(restart="Never"))
        ),
        _ELASTIC,
        "true",
    )
    account = ("spec", "headGroupSpec", "template", "spec", "serviceAccountName")
    changes = (
        (
            "whose head's account is another",
            elastic,
            changed(elastic, *account, value="none"),
            ".".join(account),
            "serviceAccountName of the head",
        ),
        ("without its fault tolerance", tolerant, plain, "spec.gcsFaultToleranceOptions.redisAddress", "gcs"),
        (
            "without the annotation of its fault tolerance",
            annotated(plain, _FT, "True"),
            plain,
            f"metadata.annotations{{{_FT}}}",
            "gcsFaultToleranceOptions, or annotation",
        ),
        (
            "that asks for a Service of Serve",
            plain,
            annotated(plain, serves, "true"),
            f"metadata.annotations{{{serves}}}",
            f"annotation {serves}",
        ),
        (
            "that asks for a Secret",
            works.ray_cluster(authOptions=_TOKEN | {"secretName": "mine"}),
            plain,
            "spec.authOptions.secretName",
            "authOptions",
        ),
    )
    for number, (name, before, after, field, kept) in enumerate(changes):
        yield Attack(
            name=f"RayCluster {name}",
            body=after,
            before=named(before, f"stops-{number}"),
            ways=CHANGES,
            gains=_GAINS,
            policy=_POLICY,
            path=f"RayCluster.{field}",
            words=("would not stop RayCluster stops-", f"leave {kept}"),
        )


ATTACKS: Final = (
    *_in_clusters(),
    *_scaled(),
    *_noted(),
    *_of_jobs(),
    *_of_services(),
    *_unstopped(),
)
