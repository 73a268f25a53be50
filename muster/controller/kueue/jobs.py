"""The jobs that users submit, cut to what decides whether they can ever run.

Computes the PodSets that Kueue will make of each kind of work. webhooks.py and
limits.py judge them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from dataclasses import field as attribute
from dataclasses import replace as dataclass_replace
from types import MappingProxyType
from typing import Any, Final

import msgspec
from msgspec import field
from msgspec.structs import replace

from muster.controller.gangs.demand import Uncopied, amounts_once, port_field, uncopied
from muster.controller.gangs.node_choice import ANY_NODE, NodeChoice, on_their_nodes, selects
from muster.controller.gangs.objects import (
    Container,
    PodAffinity,
    PodSpec,
    PodTemplateSpec,
    ResourceNeeds,
    Taint,
    TopologySpreadConstraint,
)
from muster.controller.gangs.verify import is_tolerated
from muster.controller.kube.resource import Object, Partial
from muster.model.names import (
    DEVICE_RESOURCES,
    GPU_TAINT_EFFECT,
    GPU_TAINT_VALUE,
    KAI_REQUIRED_PLACEMENT,
    LEAST_AT_ONCE,
    POOL_LABEL,
)
from muster.model.pods import Amounts, read
from muster.model.quantities import parse_quantity, read_count
from muster.model.work import BY_KIND, COUNTED, made_later, value_at

# Resource -> the taint of the nodes that have it.
DEVICE_TAINTS: Final = {
    resource: Taint(key=resource, value=GPU_TAINT_VALUE, effect=GPU_TAINT_EFFECT)
    for resource in DEVICE_RESOURCES
}
# What KubeRay gives to the container that submits, and Kueue counts, where a RayJob leaves it out
# (ray-operator/controllers/ray/common/job.go, pkg/controller/jobs/rayjob/rayjob_controller.go).
_SUBMITTER: Final = Container(resources=ResourceNeeds(requests={"cpu": "500m", "memory": "200Mi"}))


# And to the one that scales a cluster (ray-operator/controllers/ray/common/pod.go at v1.6.2), which Kueue
# counts in the head (pkg/controller/jobs/raycluster of 0.19.2).
_AUTOSCALER: Final = ResourceNeeds(
    limits={"cpu": "500m", "memory": "512Mi"}, requests={"cpu": "500m", "memory": "512Mi"}
)


# And GKE to pods with the annotation `volumes`, which mount buckets, as others with this beginning change it.
# Kueue counts templates, in which it is not.
# Source: https://github.com/GoogleCloudPlatform/gcs-fuse-csi-driver, pkg/webhook/config.go and
# deploy/base/webhook/deployment.yaml, read 2026-11-30
_GCSFUSE: Final = "gke-gcsfuse/"
_MOUNTER: Final = {"cpu": "250m", "memory": "256Mi", "ephemeral-storage": "5Gi"}


class TemplateMetadata(Partial, frozen=True):
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)


class JobTemplate(PodTemplateSpec, frozen=True):
    """A pod template with what its author says of its pods."""

    metadata: TemplateMetadata = TemplateMetadata()


class HeadGroup(Partial, frozen=True):
    ray_start_params: dict[str, str] = field(default_factory=dict)
    template: JobTemplate = JobTemplate()


class WorkerGroup(Partial, frozen=True):
    group_name: str = ""
    replicas: int | None = None
    num_of_hosts: int = 1
    ray_start_params: dict[str, str] = field(default_factory=dict)
    template: JobTemplate = JobTemplate()


class AutoscalerOptions(Partial, frozen=True):
    resources: ResourceNeeds | None = None


class RayClusterSpec(Partial, frozen=True):
    head_group_spec: HeadGroup = HeadGroup()
    worker_group_specs: tuple[WorkerGroup, ...] = ()
    enable_in_tree_autoscaling: bool = False
    autoscaler_options: AutoscalerOptions = AutoscalerOptions()


class RayCluster(Object, frozen=True):
    spec: RayClusterSpec = RayClusterSpec()


class RayJobSpec(Partial, frozen=True):
    submission_mode: str = ""
    entrypoint_num_cpus: float = 0
    entrypoint_num_gpus: float = 0
    cluster_selector: dict[str, str] = field(default_factory=dict)
    ray_cluster_spec: RayClusterSpec | None = None
    submitter_pod_template: JobTemplate | None = None


class RayJob(Object, frozen=True):
    spec: RayJobSpec = RayJobSpec()


class RayServiceSpec(Partial, frozen=True):
    ray_cluster_config: RayClusterSpec | None = None


class RayService(Object, frozen=True):
    spec: RayServiceSpec = RayServiceSpec()


class Counted(Object, frozen=True):
    """Work whose kind is the name of its class, with its pods where the row of the kind says."""

    spec: dict[str, Any] = field(default_factory=dict)


class JobSpec(Partial, frozen=True):
    parallelism: int = 1
    completions: int | None = None
    template: JobTemplate = JobTemplate()


class Job(Object, frozen=True):
    spec: JobSpec = JobSpec()


class CronJobSpec(Partial, frozen=True):
    job_template: Job = Job()


class CronJob(Object, frozen=True):
    spec: CronJobSpec = CronJobSpec()


def _counted(kind: str) -> type[Counted]:
    class Kind(Counted, frozen=True):
        pass

    Kind.__name__ = kind
    return Kind


KINDS: Final[tuple[type[Object], ...]] = (
    *(RayJob, RayCluster, RayService, Job, CronJob),
    *(_counted(each.kind) for each in COUNTED),
)


_EXCLUSIVE: Final = {
    "JobSet": "alpha.jobset.sigs.k8s.io/exclusive-topology",
    "LeaderWorkerSet": "leaderworkerset.sigs.k8s.io/exclusive-topology",
}
_SIZES: Final = ("size", "subGroupPolicy.subGroupSize")
_SUBGROUP_EXCLUSIVE: Final = "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology"
"""The annotation that gives each Job of a set, or each group, a domain for itself alone: nodes with one value
of the label that it names. Its controller makes no other pod of a Job before the first one is placed.

Source: https://github.com/kubernetes-sigs/jobset at v0.12.0, pkg/webhooks/pod_mutating_webhook.go, and
https://github.com/kubernetes-sigs/lws at v0.9.0, pkg/webhooks/pod_webhook.go, read 2026-11-29
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPodSet:
    """One PodSet of a job that has no flavor yet. `pool` is the one that its own node selector names, if
    any, and `nodes` all that its template says of them. `tolerated`: the accelerators on whose nodes it may
    run, which have a taint each, by their resource. `notes`: the annotations of its pods. `apart`: the field
    that puts each of them on a node of its own, if any. `spread`: those that require several domains of its
    pods. `is_together`: all of them are on one node.
    `shares_gpus`: each asks for a part of GPUs. `claims`: the names of those that they share. `sidecar`: what
    GKE adds to each of them on its nodes.
    """

    name: str
    count: int
    amounts: Amounts
    pool: str
    tolerated: frozenset[str]
    nodes: NodeChoice = ANY_NODE
    notes: Mapping[str, str] = attribute(default_factory=lambda: MappingProxyType({}))
    uncopied: tuple[Uncopied, ...] = ()
    apart: str = ""
    spread: tuple[TopologySpreadConstraint, ...] = ()
    is_together: bool = False
    shares_gpus: bool = False
    claims: tuple[str, ...] = ()
    sidecar: Amounts = attribute(default_factory=lambda: MappingProxyType({}))


def pod_sets_of(obj: Object) -> Iterator[JobPodSet]:
    """As Kueue makes and counts them; none of a RayJob that uses a running cluster. Raises ValueError for a
    bad quantity.
    """
    of_all = {key: said for key, said in obj.metadata.annotations.items() if key == KAI_REQUIRED_PLACEMENT}
    for each in _pod_sets_of(obj):
        yield dataclass_replace(each, notes={**of_all, **each.notes}) if of_all else each


def _pod_sets_of(obj: Object) -> Iterator[JobPodSet]:
    match obj:
        case RayJob(spec=spec) if not spec.cluster_selector:
            # In one mode it is the head's pod that submits; in another, KubeRay's default, a pod of its own.
            beside = (_SUBMITTER,) if spec.submission_mode == "SidecarMode" else ()
            yield from _ray(spec.ray_cluster_spec, beside)
            if spec.submission_mode in ("", "K8sJobMode"):
                alone = JobTemplate(spec=PodSpec(containers=(_SUBMITTER,)))
                yield job_pod_set("submitter", 1, spec.submitter_pod_template or alone)
        case RayCluster(spec=cluster):
            yield from _ray(cluster)
        case RayService(spec=service):
            yield from _ray(service.ray_cluster_config)
        case CronJob(spec=cron):
            yield from pod_sets_of(cron.job_template)
        case Job(spec=spec):
            at_once = (
                spec.parallelism if spec.completions is None else min(spec.parallelism, spec.completions)
            )
            # The least with which Kueue may start a Job.
            least = read_count(obj.metadata.annotations.get(LEAST_AT_ONCE, ""), most_digits=9)
            yield job_pod_set("main", at_once if least is None else min(at_once, least), spec.template)
        case Counted(spec=grouped):
            kind = BY_KIND[type(obj).__name__]
            later = dict(made_later(kind, grouped))
            for pods in kind.pods:
                for place in pods.places({"spec": grouped}):
                    template = msgspec.convert(place.template, JobTemplate)
                    made = job_pod_set(place.name.lower(), pods.count(place), template)
                    if place.name in later:  # Placeholders leave their nodes to all pods at once.
                        fields = (*made.uncopied, Uncopied(field=later[place.name]))
                        made = dataclass_replace(made, uncopied=fields)
                    yield made


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusive:
    """`count` times these pods, each time in a domain of their own: nodes with one value of the label
    `key`. Nothing is exclusive where that is empty.
    """

    key: str
    count: int
    pods: tuple[JobPodSet, ...]


def exclusive_of(obj: Object) -> Iterator[Exclusive]:
    """What of a JobSet or LeaderWorkerSet is alone in its domain. Raises ValueError for a bad quantity."""
    kind = type(obj).__name__
    listed = tuple(pod_sets_of(obj)) if isinstance(obj, Counted) and kind in _EXCLUSIVE else ()
    if not isinstance(obj, Counted) or not listed:
        return
    of_all = obj.metadata.annotations.get(_EXCLUSIVE[kind], "")
    if kind == "LeaderWorkerSet":
        yield Exclusive(key=of_all, count=_number(obj.spec, "replicas"), pods=listed)
        size, part = (_number(obj.spec, f"leaderWorkerTemplate.{each}") for each in _SIZES)
        workers = dataclass_replace(listed[-1], count=min(part, listed[-1].count))
        key = obj.metadata.annotations.get(_SUBGROUP_EXCLUSIVE, "")
        yield Exclusive(
            key=key, count=_number(obj.spec, "replicas") * (size // max(1, part)), pods=(workers,)
        )
        return
    (pods,) = BY_KIND[kind].pods
    for place, pod_set in zip(pods.places({"spec": obj.spec}), listed, strict=True):
        written = value_at(place.group, "template.metadata.annotations") or {}
        count = _number(place.group, "replicas")
        one = dataclass_replace(pod_set, count=pod_set.count // max(1, count))
        yield Exclusive(key=written.get(_EXCLUSIVE[kind], of_all), count=count, pods=(one,))


def _number(group: Mapping[str, Any], path: str) -> int:
    found = value_at(group, path)
    return 1 if found is None else msgspec.convert(found, int)


def _ray(spec: RayClusterSpec | None, beside: tuple[Container, ...] = ()) -> Iterator[JobPodSet]:
    """The head and every worker group. `beside`: containers that KubeRay adds to the head's own."""
    if spec is None:
        return
    template = spec.head_group_spec.template
    if spec.enable_in_tree_autoscaling:
        beside = (*beside, Container(resources=spec.autoscaler_options.resources or _AUTOSCALER))
    whole = replace(template.spec, containers=(*template.spec.containers, *beside))
    yield job_pod_set("head", 1, replace(template, spec=whole))
    for group in spec.worker_group_specs:
        replicas = 1 if group.replicas is None else group.replicas
        yield job_pod_set(group.group_name.lower(), replicas * max(1, group.num_of_hosts), group.template)


def _metadata_of(template: PodTemplateSpec) -> TemplateMetadata:
    """A Workload's templates, in the same form, are kept without it."""
    return template.metadata if isinstance(template, JobTemplate) else TemplateMetadata()


def _sidecar(notes: Mapping[str, str]) -> Amounts:
    """A limit stands for a request that is left out, but for 0, which is none. Raises ValueError."""
    if notes.get(f"{_GCSFUSE}volumes") not in ("true", "True"):
        return {}
    limits = {name: notes.get(f"{_GCSFUSE}{name}-limit", "0") for name in _MOUNTER}
    asked = {
        name: notes.get(f"{_GCSFUSE}{name}-request", limits[name] if parse_quantity(limits[name]) else own)
        for name, own in _MOUNTER.items()
    }
    return read({}, asked)


def _apart(template: PodTemplateSpec) -> str:
    """Whether no node takes two of its pods."""
    return "podAntiAffinity" if _joins("pod_anti_affinity", template) else port_field(template.spec)


def _joins(field: str, template: PodTemplateSpec) -> bool:
    """Whether this affinity of a pod requires something of its node about the other pods of its template."""
    rules: PodAffinity | None = getattr(template.spec.affinity, field, None)
    return on_their_nodes(rules, [_metadata_of(template).labels])


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


def job_pod_set(name: str, count: int, template: PodTemplateSpec) -> JobPodSet:
    """Raises ValueError for a bad quantity."""
    return JobPodSet(
        name=name,
        count=count,
        amounts=amounts_once(template.spec),
        pool=template.spec.node_selector.get(POOL_LABEL, ""),
        nodes=NodeChoice.of(template.spec),
        notes=_metadata_of(template).annotations,
        uncopied=uncopied(template.spec),
        apart=_apart(template),
        spread=tuple(
            each
            for each in template.spec.topology_spread_constraints
            if each.is_required and each.min_domains > 1 and selects(each, _metadata_of(template).labels)
        ),
        claims=tuple(
            each.persistent_volume_claim.claim_name
            for each in template.spec.volumes
            if each.persistent_volume_claim
        ),
        is_together=_joins("pod_affinity", template),
        sidecar=_sidecar(_metadata_of(template).annotations),
        tolerated=frozenset(
            resource
            for resource, taint in DEVICE_TAINTS.items()
            if is_tolerated(taint, template.spec.tolerations)
        ),
    )
