"""Elastic work that is changed so that its new pods start uncounted: Kueue puts the gate into its templates
when it is created, and counts again only how many pods there are.

The objects here have the gate already, as Kueue's webhook leaves them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from muster.model.names import ELASTIC_JOB
from tests.integration.tenancy import works
from tests.integration.tenancy.attack import CHANGES, Attack
from tests.integration.tenancy.cluster import Object
from tests.integration.tenancy.works import annotated, changed, named, template

_POLICY: Final = "muster-growth"
_GATES: Final[Object] = {"schedulingGates": [{"name": ELASTIC_JOB}]}
_POOL: Final[Object] = {"nodeSelector": {"muster.dev/pool": "l4"}}
_KEPT: Final[Object] = {**_GATES, **_POOL}
_UNCOUNTED: Final = "workers without quota, as many as the member writes: none waits behind a gate"
_LARGER: Final = "eight GPUs a worker at the quota of one, when KubeRay makes it again"
_GATE_WORDS: Final = ("is elastic", f"keep {ELASTIC_JOB} in schedulingGates of", "kubectl patch")
_SIZE_WORDS: Final = (
    "counts again only how many pods it has",
    "do not change the resources in",
    "create a new",
)


def _spec(
    *, head: Object | None = None, worker: Object | None = None, more: tuple[Object, ...] = (), **fields: Any
) -> Object:
    """A Ray cluster as Kueue leaves it, with other templates in their places."""
    spec = works.cluster_spec(**{"suspend": False, **fields})
    spec["headGroupSpec"]["template"] = head or template(0, **_KEPT)
    spec["workerGroupSpecs"][0]["template"] = worker or template(1, **_KEPT)
    spec["workerGroupSpecs"] += more
    return spec


def _cluster(**fields: Any) -> Object:
    return annotated(works.ray_cluster(**_spec(**fields)), ELASTIC_JOB, "true")


def _service(**fields: Any) -> Object:
    return annotated(works.ray_service(rayClusterConfig=_spec(**fields)), ELASTIC_JOB, "true")


def _job(*, suspend: bool = True, **spec: Any) -> Object:
    body = works.job(suspend=suspend, parallelism=1, completions=100)
    body["spec"]["template"] = template(1, restart="Never", **{**_KEPT, **spec})
    return annotated(body, ELASTIC_JOB, "true")


def _ray_job(*, suspend: bool = True, workers: int = 2, gpus: int = 1, **spec: Any) -> Object:
    """Kueue puts no gate into one."""
    cluster = works.cluster_spec(workers=workers, gpus=gpus)
    cluster["workerGroupSpecs"][0]["template"]["spec"] |= spec
    return annotated(works.ray_job(suspend=suspend, rayClusterSpec=cluster), ELASTIC_JOB, "true")


_CLUSTERS: Final = {"RayCluster.spec": _cluster, "RayService.spec.rayClusterConfig": _service}
_BESIDE: Final = template(1)["spec"]["containers"][0] | {"name": "beside"}
_SECOND: Final = works.cluster_spec()["workerGroupSpecs"][0] | {"groupName": "more"}


def _in_clusters() -> Iterator[Attack]:
    """Kueue's own webhook checks the gates of a RayCluster too, but not those of a RayService."""
    size = "spec.containers[].resources.requests{}"
    for place, make in _CLUSTERS.items():
        for name, body, at, gains, words in (
            (
                "workers without the gate",
                make(worker=template(1, **_POOL), workers=50),
                "workerGroupSpecs[].template.spec.schedulingGates[].name",
                _UNCOUNTED,
                (*_GATE_WORDS, "workerGroupSpecs of gpu"),
            ),
            (
                "a head without the gate",
                make(head=template(0, **_POOL)),
                "headGroupSpec.template.spec.schedulingGates[].name",
                "a head before the queue has counted it, after an eviction",
                (*_GATE_WORDS, "headGroupSpec.template"),
            ),
            (
                "another gate",
                make(worker=template(1, schedulingGates=[{"name": "kueue.x-k8s.io/topology"}], **_POOL)),
                "workerGroupSpecs[].template.spec.schedulingGates[].name",
                _UNCOUNTED,
                (*_GATE_WORDS,),
            ),
            (
                "larger workers",
                make(worker=template(8, **_KEPT)),
                f"workerGroupSpecs[].template.{size}",
                _LARGER,
                (*_SIZE_WORDS, "workerGroupSpecs of gpu"),
            ),
            (
                "workers of a higher limit",
                make(worker=_limited(8)),
                "workerGroupSpecs[].template.spec.containers[].resources.limits{}",
                _LARGER,
                _SIZE_WORDS,
            ),
            (
                "larger workers while it is stopped",
                make(worker=template(8, **_KEPT), suspend=True),
                f"workerGroupSpecs[].template.{size}",
                _LARGER,
                _SIZE_WORDS,
            ),
            (
                "a larger head",
                make(head=template(8, **_KEPT)),
                f"headGroupSpec.template.{size}",
                "eight GPUs without quota, when KubeRay makes the head again",
                (*_SIZE_WORDS, "headGroupSpec.template"),
            ),
            (
                "one more container",
                make(worker=_with("containers", _BESIDE)),
                f"workerGroupSpecs[].template.{size}",
                _LARGER,
                _SIZE_WORDS,
            ),
            (
                "a container beside the others",
                make(worker=_with("initContainers", {**_BESIDE, "restartPolicy": "Always"})),
                "workerGroupSpecs[].template.spec.initContainers[].restartPolicy",
                _LARGER,
                _SIZE_WORDS,
            ),
            (
                "pods that ask for more as a whole",
                make(worker=template(1, resources={"requests": {"cpu": "64"}}, **_KEPT)),
                "workerGroupSpecs[].template.spec.resources.requests{}",
                "64 CPUs a worker without quota",
                ("what its pods request as a whole", "do not change spec.resources"),
            ),
            (
                "workers of another pool",
                make(worker=template(1, nodeSelector={"muster.dev/pool": "h100"}, **_GATES)),
                "workerGroupSpecs[].template.spec.nodeSelector{}",
                "GPUs of one pool at the quota of another",
                ("not on which nodes", "do not change nodeSelector"),
            ),
            (
                "workers of any pool",
                make(worker=template(1, **_GATES)),
                "workerGroupSpecs[].template.spec.nodeSelector{}",
                "GPUs of one pool at the quota of another",
                ("not on which nodes", "do not change nodeSelector"),
            ),
        ):
            yield _change(f"{body['kind']} with {name}", make(), body, f"{place}.{at}", gains, *words)
        claim = {"name": "gpus", "resourceClaimTemplateName": "eight-gpus"}
        claiming = _change(
            f"{make()['kind']} with pods that claim devices",
            make(),
            make(worker=template(1, resourceClaims=[claim], **_KEPT)),
            f"{place}.workerGroupSpecs[].template.spec.resourceClaims[].resourceClaimTemplateName",
            "eight GPUs a worker without quota, where a stack maps classes of devices",
            "what its pods request as a whole",
            "spec.resourceClaims",
        )
        # Without such classes no claim is allowed at all.
        yield replace(claiming, also=("muster-templates",))
    yield _change(
        "RayCluster with another group without the gate, in place of the first",
        _cluster(),
        changed(_cluster(), "spec", "workerGroupSpecs", value=[_SECOND]),
        "RayCluster.spec.workerGroupSpecs[].groupName",
        _UNCOUNTED,
        *_GATE_WORDS,
        "workerGroupSpecs of more",
    )
    yield _change(
        "suspended RayCluster with a second group without the gate",
        _cluster(suspend=True),
        _cluster(suspend=True, more=(_SECOND,)),
        "RayCluster.spec.workerGroupSpecs[].groupName",
        _UNCOUNTED,
        *_GATE_WORDS,
        "workerGroupSpecs of more",
    )
    for place, make in _CLUSTERS.items():
        for name, worker in (("", template(1, **_KEPT)), ("and larger workers", template(8, **_KEPT))):
            body = make(worker=worker)
            (group,) = _groups(body)
            group["groupName"] = "GPU"
            yield _change(
                f"{body['kind']} with its group in capitals {name}".strip(),
                make(),
                body,
                f"{place}.workerGroupSpecs[].groupName",
                _LARGER,
                "reads names of groups in lower case",
                "groupName as before in place of GPU",
            )
    scales = {"enableInTreeAutoscaling": True}
    yield _change(
        "RayCluster with a larger autoscaler",
        _cluster(**scales),
        _cluster(**scales, autoscalerOptions={"resources": {"requests": {"nvidia.com/gpu": "8"}}}),
        "RayCluster.spec.autoscalerOptions.resources.requests{}",
        "eight GPUs in the head, without quota",
        *_SIZE_WORDS,
        "spec.autoscalerOptions",
    )
    yield _change(
        "RayCluster that gets an autoscaler later",
        _cluster(),
        _cluster(**scales, autoscalerOptions={"resources": {"requests": {"nvidia.com/gpu": "8"}}}),
        "RayCluster.spec.enableInTreeAutoscaling",
        "eight GPUs in the head, without quota",
        *_SIZE_WORDS,
    )


def _groups(body: Object) -> list[Object]:
    """The worker groups of a cluster or a service."""
    found: list[Object] = body["spec"].get("rayClusterConfig", body["spec"])["workerGroupSpecs"]
    return found


def _limited(gpus: int) -> Object:
    """Kubernetes takes the limit for the request where none is written."""
    body = template(1, **_KEPT)
    body["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": str(gpus)}}
    return body


def _with(field: str, container: Object) -> Object:
    body = template(1, **_KEPT)
    body["spec"][field] = [*body["spec"].get(field, []), container]
    return body


def _in_jobs() -> Iterator[Attack]:
    """Of a Job that has not started, the API server lets gates and node selectors be changed."""
    yield _change(
        "Job without the gate",
        _job(),
        _job(schedulingGates=[]),
        "Job.spec.template.spec.schedulingGates[].name",
        "any number of pods once it runs: parallelism may be raised, and none waits behind a gate",
        *_GATE_WORDS,
        "spec.template",
    )
    yield _change(
        "Job on other nodes",
        _job(),
        _job(nodeSelector={"muster.dev/pool": "h100"}),
        "Job.spec.template.spec.nodeSelector{}",
        "GPUs of one pool at the quota of another",
        "do not change nodeSelector",
    )
    ungated = _job(suspend=False, schedulingGates=[])
    yield _change(
        "larger Job that has no gate",
        ungated,
        changed(ungated, "spec", "parallelism", value=50),
        "Job.spec.parallelism",
        "49 pods without quota",
        "its queue counted is 1",
        "create a new",
    )
    place = "RayJob.spec.rayClusterSpec.workerGroupSpecs[]"
    yield _change(
        "waiting RayJob with larger workers",
        _ray_job(),
        _ray_job(gpus=8),
        f"{place}.template.spec.containers[].resources.requests{{}}",
        "eight GPUs a worker at the quota of one: Kueue keeps what it read at creation",
        *_SIZE_WORDS,
    )
    yield _change(
        "running RayJob with more workers",
        _ray_job(suspend=False),
        _ray_job(suspend=False, workers=50),
        f"{place}.replicas",
        "48 workers without quota, when KubeRay tries the job again: none has a gate",
        "counted the workers of group gpu",
        "create a new",
    )
    yield _change(
        "waiting RayJob for another pool",
        _ray_job(**_POOL),
        _ray_job(nodeSelector={"muster.dev/pool": "h100"}),
        f"{place}.template.spec.nodeSelector{{}}",
        "GPUs of one pool at the quota of another",
        "do not change nodeSelector",
    )


def _no_longer() -> Iterator[Attack]:
    for body in (_cluster(), _service(), _job(), _ray_job()):
        yield _change(
            f"{body['kind']} that is no longer",
            body,
            changed(body, "metadata", "annotations", value=None),
            f"{body['kind']}.metadata.annotations{{{ELASTIC_JOB}}}",
            "a change of the templates that is not judged as one of elastic work",
            f"keep annotation {ELASTIC_JOB}",
            "create a new",
        )


def _change(name: str, before: Object, body: Object, path: str, gains: str, *words: str) -> Attack:
    suspended = "-stopped" if _is_suspended(before) else ""
    scaled = "-scaled" if before["spec"].get("enableInTreeAutoscaling") else ""
    pool = "-pooled" if before["kind"] == "RayJob" and "Selector" in path else ""
    bare = "-bare" if "no gate" in name else ""
    return Attack(
        name=f"elastic {name}",
        body=body,
        before=named(before, f"elastic-{before['kind'].lower()}{suspended}{scaled}{pool}{bare}"),
        ways=CHANGES,
        gains=gains,
        policy=_POLICY,
        path=path,
        words=words,
    )


def _is_suspended(body: Object) -> bool:
    return bool(body["spec"].get("suspend"))


ATTACKS: Final = (*_in_clusters(), *_in_jobs(), *_no_longer())
