"""The jobs that users submit, cut to what decides whether they can ever run.

Computes the PodSets that Kueue will make of a RayJob, RayCluster, RayService or Job. webhooks.py and
limits.py judge them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from msgspec import field
from msgspec.structs import replace

from muster.controller.gangs.demand import amounts_once
from muster.controller.gangs.node_choice import ANY_NODE, NodeChoice
from muster.controller.gangs.objects import Container, PodSpec, PodTemplateSpec, ResourceNeeds, Taint
from muster.controller.gangs.verify import is_tolerated
from muster.controller.kube.resource import Object, Partial
from muster.model.names import (
    DEVICE_RESOURCES,
    GPU_TAINT_EFFECT,
    GPU_TAINT_VALUE,
    LEAST_AT_ONCE,
    POOL_LABEL,
)
from muster.model.pods import Amounts
from muster.model.quantities import read_count

# Resource -> the taint of the nodes that have it.
DEVICE_TAINTS: Final = {
    resource: Taint(key=resource, value=GPU_TAINT_VALUE, effect=GPU_TAINT_EFFECT)
    for resource in DEVICE_RESOURCES
}
# What KubeRay gives to the container that submits, and Kueue counts, where a RayJob leaves it out
# (ray-operator/controllers/ray/common/job.go, pkg/controller/jobs/rayjob/rayjob_controller.go).
_SUBMITTER: Final = Container(resources=ResourceNeeds(requests={"cpu": "500m", "memory": "200Mi"}))


class HeadGroup(Partial, frozen=True):
    template: PodTemplateSpec = PodTemplateSpec()


class WorkerGroup(Partial, frozen=True):
    group_name: str = ""
    replicas: int | None = None
    num_of_hosts: int = 1
    template: PodTemplateSpec = PodTemplateSpec()


class RayClusterSpec(Partial, frozen=True):
    head_group_spec: HeadGroup = HeadGroup()
    worker_group_specs: tuple[WorkerGroup, ...] = ()


class RayCluster(Object, frozen=True):
    spec: RayClusterSpec = RayClusterSpec()


class RayJobSpec(Partial, frozen=True):
    submission_mode: str = ""
    cluster_selector: dict[str, str] = field(default_factory=dict)
    ray_cluster_spec: RayClusterSpec | None = None
    submitter_pod_template: PodTemplateSpec | None = None


class RayJob(Object, frozen=True):
    spec: RayJobSpec = RayJobSpec()


class RayServiceSpec(Partial, frozen=True):
    ray_cluster_config: RayClusterSpec | None = None


class RayService(Object, frozen=True):
    spec: RayServiceSpec = RayServiceSpec()


class JobSpec(Partial, frozen=True):
    parallelism: int = 1
    completions: int | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class Job(Object, frozen=True):
    spec: JobSpec = JobSpec()


class CronJobSpec(Partial, frozen=True):
    job_template: Job = Job()


class CronJob(Object, frozen=True):
    spec: CronJobSpec = CronJobSpec()


KINDS: Final[tuple[type[Object], ...]] = (RayJob, RayCluster, RayService, Job, CronJob)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPodSet:
    """One PodSet of a job that has no flavor yet. `pool` is the one that its own node selector names, if
    any, and `nodes` all that its template says of them. `tolerated`: the accelerators on whose nodes it may
    run, which have a taint each, by their resource.
    """

    name: str
    count: int
    amounts: Amounts
    pool: str
    tolerated: frozenset[str]
    nodes: NodeChoice = ANY_NODE


def pod_sets_of(obj: Object) -> Iterator[JobPodSet]:
    """As Kueue makes and counts them; none of a RayJob that uses a running cluster. Raises ValueError for a
    bad quantity.
    """
    match obj:
        case RayJob(spec=spec) if not spec.cluster_selector:
            # In one mode it is the head's pod that submits; in another, KubeRay's default, a pod of its own.
            beside = (_SUBMITTER,) if spec.submission_mode == "SidecarMode" else ()
            yield from _ray(spec.ray_cluster_spec, beside)
            if spec.submission_mode in ("", "K8sJobMode"):
                alone = PodTemplateSpec(spec=PodSpec(containers=(_SUBMITTER,)))
                yield _job_pod_set("submitter", 1, spec.submitter_pod_template or alone)
        case RayCluster(spec=cluster):
            yield from _ray(cluster)
        case RayService(spec=service):
            yield from _ray(service.ray_cluster_config)
        case Job():
            yield _job(obj)
        case CronJob(spec=cron):
            yield _job(cron.job_template)


def _ray(spec: RayClusterSpec | None, beside: tuple[Container, ...] = ()) -> Iterator[JobPodSet]:
    """The head and every worker group. `beside`: containers that KubeRay adds to the head's own."""
    if spec is None:
        return
    head = spec.head_group_spec.template.spec
    whole = replace(head, containers=(*head.containers, *beside))
    yield _job_pod_set("head", 1, PodTemplateSpec(spec=whole))
    for group in spec.worker_group_specs:
        replicas = 1 if group.replicas is None else group.replicas
        yield _job_pod_set(group.group_name.lower(), replicas * max(1, group.num_of_hosts), group.template)


def _job(job: Job) -> JobPodSet:
    """One, as large as the Job runs at a time, or as the least with which Kueue may start it."""
    spec, least = job.spec, job.metadata.annotations.get(LEAST_AT_ONCE, "")
    at_once = spec.parallelism if spec.completions is None else min(spec.parallelism, spec.completions)
    bound = read_count(least, most_digits=9)
    return _job_pod_set("main", at_once if bound is None else min(at_once, bound), spec.template)


def are_within(pod_sets: Iterable[JobPodSet], before: Iterable[JobPodSet]) -> bool:
    """Whether each was there before, for the same nodes, with as many pods that asked for as much."""
    known = {each.name: each for each in before}
    return all(each.name in known and _is_within(each, known[each.name]) for each in pod_sets)


def _is_within(pod_set: JobPodSet, before: JobPodSet) -> bool:
    return (
        pod_set.pool == before.pool
        and pod_set.nodes == before.nodes
        and pod_set.tolerated == before.tolerated
        and pod_set.count <= before.count
        and all(amount <= before.amounts.get(name, 0) for name, amount in pod_set.amounts.items())
    )


def _job_pod_set(name: str, count: int, template: PodTemplateSpec) -> JobPodSet:
    return JobPodSet(
        name=name,
        count=count,
        amounts=amounts_once(template.spec),
        pool=template.spec.node_selector.get(POOL_LABEL, ""),
        nodes=NodeChoice.of(template.spec),
        tolerated=frozenset(
            resource
            for resource, taint in DEVICE_TAINTS.items()
            if is_tolerated(taint, template.spec.tolerations)
        ),
    )
