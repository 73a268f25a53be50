"""Past what the queue counted: clusters that grow, second clusters, and jobs that nothing stops."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from muster.model.names import ELASTIC_JOB
from tests.integration.tenancy import works
from tests.integration.tenancy.attack import CHANGES, Attack
from tests.integration.tenancy.cluster import Object
from tests.integration.tenancy.works import annotated, cluster_spec, named

_SIZE: Final = "muster-ray-size"

# Where each kind has its Ray cluster, and ordinary work with another one there.
CLUSTERS: Final[dict[str, Callable[[Object], Object]]] = {
    "RayCluster.spec": lambda spec: works.ray_cluster(**spec),
    "RayJob.spec.rayClusterSpec": lambda spec: works.ray_job(rayClusterSpec=spec),
    "RayService.spec.rayClusterConfig": lambda spec: works.ray_service(
        rayClusterConfig={**spec, "suspend": True}
    ),
}


def _group(**fields: Any) -> Object:
    spec = cluster_spec()
    spec["workerGroupSpecs"][0] |= fields
    return spec


def _in_each_cluster(
    name: str, field: str, spec: Object, *, gains: str, words: tuple[str, ...]
) -> tuple[Attack, ...]:
    return tuple(
        Attack(
            name=f"{name}, in {place}",
            body=make(spec),
            gains=gains,
            policy=_SIZE,
            path=f"{place}.{field}",
            words=words,
        )
        for place, make in CLUSTERS.items()
    )


_STEPS: Final = {"gatewayClassName": "istio", "intervalSeconds": 10, "stepSizePercent": 10}
_GROWS: Final = "GPUs beyond those that the queue counted"
_ALONE: Final = ("enableInTreeAutoscaling is for a RayCluster of its own", "remove it")
_BOUNDS: Final = ("minReplicas <= replicas <= maxReplicas",)

_SCALES: Final = cluster_spec(enableInTreeAutoscaling=True)
_ELASTIC: Final = "kueue.x-k8s.io/elastic-job"


def _scaling() -> Iterator[Attack]:
    """As written, and after the advice for a RayCluster, which is for no other kind."""
    for place, make in CLUSTERS.items():
        is_own = place == "RayCluster.spec"
        words = ("remove enableInTreeAutoscaling", _ELASTIC) if is_own else _ALONE
        found = {"": make(_SCALES)} | (
            {} if is_own else {" elastic": annotated(make(_SCALES), _ELASTIC, "true")}
        )
        for kind, body in found.items():
            yield Attack(
                name=f"a{kind} cluster that scales itself, in {place}",
                body=body,
                gains=_GROWS,
                policy=_SIZE,
                path=f"{place}.enableInTreeAutoscaling",
                words=words,
                # By a change it becomes elastic as well.
                also=("muster-growth",) if kind else (),
            )


def _selecting() -> Iterator[Attack]:
    """It would never run: Kueue suspends it, and KubeRay fails a suspended one."""
    others = works.ray_job(
        rayClusterSpec=None, shutdownAfterJobFinishes=None, clusterSelector={"app": "somebody-s"}
    )
    found = {"picks a cluster by any label": others}
    for mode in ("HTTPMode", "K8sJobMode", "InteractiveMode"):
        found[f"runs in an existing cluster, in {mode}"] = works.in_a_cluster(mode)
    for what, body in found.items():
        yield Attack(
            name=f"RayJob that {what}",
            body=body,
            gains="a place in the queue for what never runs",
            policy=_SIZE,
            path="RayJob.spec.clusterSelector{}",
            words=("never starts here", "write spec.rayClusterSpec", "`ray job submit`"),
        )


def _upgraded() -> Iterator[Attack]:
    steps = {"gatewayClassName": "istio", "intervalSeconds": 10, "stepSizePercent": 10}
    incremental = {"type": "NewClusterWithIncrementalUpgrade", "clusterUpgradeOptions": steps}
    second = "a second cluster's GPUs beside the first's, which no queue has counted"
    recreated = works.ray_cluster(upgradeStrategy={"type": "Recreate"})
    lost = "nodes for pods that are deleted at each growth"
    for body, field, gains in (
        (works.ray_service(upgradeStrategy={"type": "NewCluster"}), "type", second),
        (
            works.ray_service(upgradeStrategy=incremental),
            "clusterUpgradeOptions.stepSizePercent",
            second,
        ),
        (annotated(recreated, ELASTIC_JOB, "true"), "type", lost),
    ):
        strategy = body["spec"]["upgradeStrategy"]["type"]
        yield Attack(
            name=f"{body['kind']} with upgradeStrategy {strategy}",
            body=body,
            gains=gains,
            policy=_SIZE,
            path=f"{body['kind']}.spec.upgradeStrategy.{field}",
            words=("upgradeStrategy",),
            also=("muster-growth",) if gains == lost else (),
        )


def _grown() -> Iterator[Attack]:
    """What runs is changed past what its queue counted."""
    indexed = {"suspend": False, "completionMode": "Indexed"}
    job, cluster = works.job(suspend=False, parallelism=1, completions=100), works.ray_cluster(suspend=False)
    for name, before, body, field, gains in (
        (
            "a larger Job",
            named(job, "runs-with-one"),
            works.job(suspend=False, parallelism=50, completions=100),
            "Job.spec.parallelism",
            "49 pods without quota, until Kueue has stopped the job",
        ),
        (
            "an Indexed Job with more completions",
            named(works.job(parallelism=50, completions=1, **indexed), "runs-with-one-completion"),
            works.job(parallelism=50, completions=50, **indexed),
            "Job.spec.completions",
            "49 pods without quota, until Kueue has stopped the job",
        ),
        (
            "a RayCluster with more hosts for each worker",
            named(cluster, "runs-with-two"),
            works.ray_cluster(suspend=False, **_group(numOfHosts=9)),
            "RayCluster.spec.workerGroupSpecs[].numOfHosts",
            "nine times the workers, until Kueue has stopped them",
        ),
    ):
        yield Attack(
            name=f"what runs changed into {name}",
            body=body,
            before=before,
            ways=CHANGES,
            gains=gains,
            policy="muster-growth",
            path=field,
            words=("its queue counted", "For more, create a new"),
        )


def _elastic_later() -> Iterator[Attack]:
    for body in (works.job(), works.ray_cluster()):
        yield Attack(
            name=f"{body['kind']} that becomes elastic when it exists",
            body=annotated(body, ELASTIC_JOB, "true"),
            ways=CHANGES,
            gains="any number of pods once it runs, without a gate before its queue has counted them",
            policy="muster-growth",
            path=f"{body['kind']}.metadata.annotations{{{ELASTIC_JOB}}}",
            words=("takes effect only when", "create a new"),
        )


ATTACKS: Final = (
    *_scaling(),
    *_in_each_cluster(
        "replicas that KubeRay raises",
        "workerGroupSpecs[].minReplicas",
        _group(replicas=0, minReplicas=64, maxReplicas=64),
        gains=_GROWS,
        words=_BOUNDS,
    ),
    *_in_each_cluster(
        "replicas above their bound",
        "workerGroupSpecs[].maxReplicas",
        _group(replicas=9, maxReplicas=1, minReplicas=0),
        gains=_GROWS,
        words=_BOUNDS,
    ),
    *_in_each_cluster(
        "replicas below their bound",
        "workerGroupSpecs[].replicas",
        _group(replicas=1, minReplicas=4, maxReplicas=8),
        gains=_GROWS,
        words=_BOUNDS,
    ),
    *_selecting(),
    *_upgraded(),
    *_grown(),
    *_elastic_later(),
    Attack(
        name="RayJob that cannot be suspended",
        body=works.ray_job(submissionMode="InteractiveMode", entrypoint=None),
        gains="GPUs without end: preemption passes it by",
        policy="muster-work",
        path="RayJob.spec.submissionMode",
        words=("InteractiveMode cannot be suspended", "use HTTPMode, or K8sJobMode"),
    ),
)
