"""The kinds of work, a row each: how the API server, Kueue and a stack call them.

What follows from a row: what a team's members may create and how much of it, the policies and webhooks that
judge it, Kueue's integrations, and what `muster check` and `muster why` know. Their fields that only one
kind has are judged where that kind is (muster/render/tenancy/policies).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial, reduce
from math import prod
from typing import Any, Final

# `spec.jobs[name].template`, `spec.specs{Master,Worker}.template`
_IN_GROUPS: Final = re.compile(
    r"(?P<groups>[\w.]+)(\[(?P<field>\w+)\]|\{(?P<keys>[\w,]+)\})\.(?P<rest>[\w.]+)"
)

SUSPEND: Final = "spec.suspend"
"""Where most kinds are stopped."""
MAIN: Final = "main"
"""The pods of an object that has one group of them, as Kueue calls them."""


class Work(StrEnum):
    """A family of kinds that a stack serves. ray: RayJob, RayCluster and RayService. job: Job and CronJob."""

    RAY = "ray"
    JOB = "job"
    JOBSET = "jobset"
    PYTORCHJOB = "pytorchjob"
    MPIJOB = "mpijob"
    LWS = "lws"
    TRAINJOB = "trainjob"
    STATEFULSET = "statefulset"
    DEPLOYMENT = "deployment"


@dataclass(frozen=True, slots=True)
class Path:
    """Where a value is in an object: keys, joined by dots. One of several has the list that its group is an
    item of, with the field that names the item, `spec.jobs[name].template`, or the mapping, with the keys
    that it may have, `spec.specs{Master,Worker}.template`.
    """

    text: str

    @property
    def groups(self) -> str:
        """The path of the list or mapping; empty where there is none."""
        return self._part("groups")

    @property
    def field(self) -> str:
        """The field that names an item of the list; empty for a mapping."""
        return self._part("field")

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the mapping; none for a list."""
        return tuple(filter(None, self._part("keys").split(",")))

    @property
    def rest(self) -> str:
        """The path in a group, or the whole."""
        return self._part("rest") or self.text

    def groups_of(self, body: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str | int, ...], Any]]:
        """The name of each group, the keys to it and the group itself, or the object without a name."""
        if not self.groups:
            yield "", (), body
            return
        groups, at = value_at(body, self.groups), tuple(self.groups.split("."))
        if isinstance(groups, dict) and not self.field:
            yield from ((key, (*at, key), groups.get(key)) for key in self.keys)
        elif isinstance(groups, list) and self.field:
            for index, group in enumerate(groups):
                yield str(value_at(group, self.field)), (*at, index), group

    def _part(self, name: str) -> str:
        found = _IN_GROUPS.fullmatch(self.text)
        return (found[name] or "") if found else ""


@dataclass(frozen=True, slots=True)
class Place:
    """A pod template in an object, at these keys and indexes. `group`: the object or the item that it is in,
    of which `name` is the name; that of an object is the row's, or empty. `is_of_runtime`: the template
    itself is another object's (`Pods`).
    """

    name: str
    at: tuple[str | int, ...]
    group: Mapping[str, Any]
    template: dict[str, Any]
    is_of_runtime: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Pods:
    """Pods of one template, or of one in each group. Their number is the product of `counts`, paths in the
    group whose values are 1 where they are left out, and of a Job no more than `most`. One of them is of the
    template at `first` instead, where there is one. `gangs`: the path of how many times a queue admits them,
    each by itself. `name`: of those that are in no group. `succeeded`: where the status has how many of the
    first count have, in groups as `template` has them. `failed_indexes`: where it has those that get no other
    pod, such as `1,3-5`.

    `is_of_runtime`: their template is in an object of the platform team, a runtime. At `template` are the
    image, `env` and `resourcesPerNode` that replace those of its container. What the object leaves out is
    not known from it: of pods without `resourcesPerNode` there is no place.
    """

    template: Path
    counts: tuple[str, ...] = ()
    most: str = ""
    first: str = ""
    gangs: str = ""
    name: str = ""
    succeeded: Path | None = None
    failed_indexes: str = ""
    is_of_runtime: bool = False

    @property
    def factors(self) -> tuple[str, ...]:
        """The paths whose product is the number of pods of all gangs."""
        return (*self.counts, *filter(None, (self.gangs,)))

    def count(self, place: Place, *, ended: int = 0) -> int:
        """How many of a gang run at a time. `ended`: for good, of the first count. Raises ValueError."""
        first, *rest = [_number(place.group, each) for each in self.counts] or [1]
        most = None if value_at(place.group, self.most) is None else _number(place.group, self.most)
        if most is not None and rest:
            rest[-1] = min(rest[-1], most)
        left = first - ended if most is None or rest else min(first, most - ended)
        others = 1 if self.first and value_at(place.group, self.first) is not None else 0
        return max(0, left) * prod(rest) - others

    def ended_of(self, body: Mapping[str, Any], group: str) -> int:
        """Of the first count: those that have succeeded, and indexes that have failed. Raises ValueError."""
        path = self.succeeded or Path("")
        found = (value_at(each, path.rest) for name, _, each in path.groups_of(body) if name == group)
        failed = (value_at(body, self.failed_indexes) or "").split(",")
        spans = (each.partition("-") for each in failed if each)
        return (next(found, None) or 0) + sum(int(last or first) - int(first) + 1 for first, _, last in spans)

    def places(self, body: Mapping[str, Any]) -> Iterator[Place]:
        """The templates of an object, without those that are malformed."""
        for name, at, group in self.template.groups_of(body):
            template = value_at(group, self.template.rest)
            if self.is_of_runtime and isinstance(template, dict):
                template = _of_runtime(template)
            if isinstance(template, dict):
                path = (*at, *self.template.rest.split("."))
                yield Place(name or self.name, path, group, template, self.is_of_runtime)


def _number(group: Mapping[str, Any], path: str) -> int:
    """1 where it is left out. Raises ValueError for what is no whole number."""
    found = value_at(group, path)
    if found is not None and (isinstance(found, bool) or not isinstance(found, int)):
        raise ValueError(f"{path} is {found!r}, which is no whole number")
    return 1 if found is None else found


def _of_runtime(container: Mapping[str, Any]) -> dict[str, Any] | None:
    """The template with this container. Its runtime says what its pods tolerate."""
    if not isinstance(resources := container.get("resourcesPerNode"), dict):
        return None
    spec = pod_of_runtime(env=container.get("env") or [], resources=resources)
    return {"spec": {**spec, "tolerations": [{"operator": "Exists"}]}}


def pod_of_runtime(*, env: object, resources: object) -> dict[str, Any]:
    """A pod by what a TrainJob replaces in its runtime. The platform team writes the runtime, and answers for
    its image and its security context.
    """
    context = {
        "allowPrivilegeEscalation": False,
        "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    container = {"name": "node", "image": "of the runtime", "env": env, "resources": resources}
    return {"containers": [{**container, "securityContext": context}]}


def value_at(body: Any, path: str) -> Any:
    """The value at a path without groups; None where there is none."""
    return reduce(lambda at, key: at.get(key) if isinstance(at, Mapping) else None, path.split("."), body)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodLabels:
    """By what the pods of an object are known: by a label of its `name`, or by their `owner`, a StatefulSet
    of that name, or a ReplicaSet whose name ends with the value of the label `suffix`. `group`: the label of
    the group that a pod is of, where the object has several. `gang`: the label of its gang, where a queue
    admits them one by one. `maker`: what `MAKER_LABEL` says, where other kinds have the same.
    """

    name: str = ""
    owner: str = ""
    suffix: str = ""
    group: str = ""
    gang: str = ""
    maker: str = ""


# Sources: https://github.com/kubeflow/training-operator, pkg/controller.v1/pytorch, and
# https://github.com/kubeflow/mpi-operator, test/e2e/mpi_job_test.go, read 2026-11-29
_KUBEFLOW: Final = "training.kubeflow.org/"
MAKER_LABEL: Final = f"{_KUBEFLOW}operator-name"


@dataclass(frozen=True, slots=True)
class Barred:
    """A field that no member may write, and what to do instead."""

    path: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkKind:
    """One kind of work.

    `cluster` is the path in its object to a Ray cluster, empty where it has none, and `pods` are those beside
    it. `framework` is Kueue's integration, empty for a kind that only makes work, whose objects are queued
    themselves. A kind without `word` is not for members: `word` is its key in a stack's limits of objects,
    with at most `objects` in a namespace, of `kibibytes` KiB each.

    `controller`: the namespace, or NAMESPACE:ACCOUNT, of the controller that a cluster brings along.
    `suspend` and `managers`: where it is stopped, and where it names `manager` or another controller.
    `cleaning`: where it says which pods end with it. `kept`: what stays as its queue counted it, beside
    groups of pods. `is_part`: another kind may make it. `serves`: its pods are a StatefulSet's or a
    ReplicaSet's, are always restarted, and wait behind Kueue's gate. `elective`: every cluster has the kind,
    and it is work only where a stack serves it. `prefix`: of the labels and annotations by which its
    controller finds its pods, of which an author writes the `free` ones. `labels`: those of its pods, where
    they wait behind Muster's gate with KAI. `makes`: the family of the one object whose pods are its own.
    """

    family: Work
    kind: str
    group: str
    version: str
    resource: str
    framework: str = ""
    word: str = ""
    objects: int = 0
    kibibytes: int = 0
    cluster: str = ""
    pods: tuple[Pods, ...] = ()
    controller: str = ""
    suspend: str = SUSPEND
    manager: str = ""
    managers: tuple[Path, ...] = (Path("spec.managedBy"),)
    cleaning: str = ""
    barred: tuple[Barred, ...] = ()
    kept: tuple[str, ...] = ()
    is_part: bool = False
    serves: bool = False
    elective: bool = False
    prefix: str = ""
    free: tuple[str, ...] = ()
    labels: PodLabels | None = None
    makes: Work | None = None

    @property
    def is_queued(self) -> bool:
        return bool(self.framework)

    @property
    def is_ray(self) -> bool:
        return self.family is Work.RAY

    @property
    def is_for_members(self) -> bool:
        return bool(self.word)

    @property
    def is_one_gang(self) -> bool:
        """Whether it serves as one gang: Kueue counts its pods once, and never more or less of them."""
        return self.serves and not any(pods.gangs for pods in self.pods)

    @property
    def is_pod_by_pod(self) -> bool:
        """Whether each of its pods is a gang by itself, whatever the others ask for."""
        return self.serves and not any(pods.counts for pods in self.pods)

    @property
    def api(self) -> str:
        return f"/apis/{self.group}/{self.version}"

    def ray_cluster(self, body: Mapping[str, Any]) -> dict[str, Any] | None:
        """The spec of the Ray cluster in an object; None where it has none, or something else there."""
        found = value_at(body, self.cluster) if self.cluster else None
        return found if isinstance(found, dict) else None

    def places(self, body: Mapping[str, Any]) -> Iterator[Place]:
        """The pod templates in an object, of a Ray cluster's first."""
        listed = (*_pods_of_ray(self.cluster), *self.pods) if self.cluster else self.pods
        for pods in listed:
            yield from pods.places(body)

    def counts(self, body: Mapping[str, Any]) -> dict[str, int]:
        """The pods of a gang by their group, without those that have ended. Raises ValueError."""
        return {
            place.name.lower() or MAIN: pods.count(place, ended=pods.ended_of(body, place.name))
            for pods in self.pods
            for place in pods.places(body)
        }


def _pods_of_ray(cluster: str) -> tuple[Pods, ...]:
    return (
        Pods(template=Path(f"{cluster}.headGroupSpec.template")),
        Pods(template=Path(f"{cluster}.workerGroupSpecs[groupName].template")),
    )


# Both of Kubeflow's operators share this part, and Kueue reads a cluster's PriorityClass in it (Kueue 0.19.2,
# pkg/controller/jobs/kubeflow and mpijob).
_SCHEDULING: Final = Barred(
    "spec.runPolicy.schedulingPolicy", "a queue starts work whole; remove spec.runPolicy.schedulingPolicy"
)

_JOBSET: Final = "jobset.sigs.k8s.io/"
_LWS: Final = "spec.leaderWorkerTemplate"
_LWS_LABELS: Final = "leaderworkerset.sigs.k8s.io/"
_TRAINER: Final = "spec.trainer"


def _volumes(path: str) -> Barred:
    """Its controller creates them, by no rule of the team's volumes."""
    return Barred(
        path, f"volumes of a team come from the stack; remove {path}, and mount a claim of the team"
    )


_ray: Final = partial(WorkKind, family=Work.RAY, group="ray.io", version="v1")
_batch: Final = partial(WorkKind, family=Work.JOB, group="batch", version="v1")
_kubeflow: Final = partial(
    WorkKind,
    group="kubeflow.org",
    objects=250,
    kibibytes=128,
    suspend="spec.runPolicy.suspend",
    managers=(Path("spec.runPolicy.managedBy"),),
    cleaning="spec.runPolicy.cleanPodPolicy",
    prefix=_KUBEFLOW,
)

# Integrations: pkg/controller/jobs of Kueue 0.19.2. Paths: the kinds' own Go types (KubeRay 1.6.2,
# ray-operator/apis/ray/v1).
WORK: Final = (
    _ray(
        kind="RayJob",
        resource="rayjobs",
        framework="ray.io/rayjob",
        word="rayJobs",
        objects=500,
        kibibytes=128,
        cluster="spec.rayClusterSpec",
        pods=(Pods(template=Path("spec.submitterPodTemplate")),),
        manager="ray.io/kuberay-operator",
    ),
    _ray(
        kind="RayCluster",
        resource="rayclusters",
        framework="ray.io/raycluster",
        word="rayClusters",
        objects=500,
        kibibytes=128,
        cluster="spec",
        is_part=True,
    ),
    _ray(
        kind="RayService",
        resource="rayservices",
        framework="ray.io/rayservice",
        word="rayServices",
        objects=50,
        kibibytes=128,
        cluster="spec.rayClusterConfig",
        suspend="spec.rayClusterConfig.suspend",
    ),
    _ray(
        kind="RayCronJob",
        resource="raycronjobs",
        cluster="spec.jobTemplate.rayClusterSpec",
        pods=(Pods(template=Path("spec.jobTemplate.submitterPodTemplate")),),
        managers=(Path("spec.jobTemplate.managedBy"),),
    ),
    _batch(
        kind="Job",
        resource="jobs",
        framework="batch/job",
        word="jobs",
        objects=2000,
        kibibytes=64,
        pods=(
            Pods(
                template=Path("spec.template"),
                counts=("spec.parallelism",),
                most="spec.completions",
                succeeded=Path("status.succeeded"),
                failed_indexes="status.failedIndexes",
            ),
        ),
        manager="kubernetes.io/job-controller",
        is_part=True,
        labels=PodLabels(name="batch.kubernetes.io/job-name"),
    ),
    _batch(
        kind="CronJob",
        resource="cronjobs",
        word="cronJobs",
        objects=100,
        kibibytes=64,
        pods=(
            Pods(
                template=Path("spec.jobTemplate.spec.template"),
                counts=("spec.jobTemplate.spec.parallelism",),
                most="spec.jobTemplate.spec.completions",
            ),
        ),
        managers=(Path("spec.jobTemplate.spec.managedBy"),),
    ),
    WorkKind(
        family=Work.JOBSET,
        kind="JobSet",
        group="jobset.x-k8s.io",
        version="v1alpha2",
        resource="jobsets",
        framework="jobset.x-k8s.io/jobset",
        word="jobSets",
        objects=500,
        kibibytes=128,
        pods=(
            Pods(
                template=Path("spec.replicatedJobs[name].template.spec.template"),
                counts=("replicas", "template.spec.parallelism"),
                most="template.spec.completions",
                succeeded=Path("status.replicatedJobsStatus[name].succeeded"),
            ),
        ),
        controller="jobset-system",
        manager="jobset.sigs.k8s.io/jobset-controller",
        managers=(Path("spec.managedBy"), Path("spec.replicatedJobs[name].template.spec.managedBy")),
        barred=(_volumes("spec.volumeClaimPolicies"),),
        is_part=True,
        prefix=_JOBSET,
        labels=PodLabels(name=f"{_JOBSET}jobset-name", group=f"{_JOBSET}replicatedjob-name"),
    ),
    # Kubeflow's training operator 1.9.3, pkg/apis/kubeflow.org/v1. It reads keys of replicas in any case, and
    # Kueue in this one alone.
    _kubeflow(
        family=Work.PYTORCHJOB,
        kind="PyTorchJob",
        version="v1",
        resource="pytorchjobs",
        framework="kubeflow.org/pytorchjob",
        word="pytorchJobs",
        pods=(
            Pods(
                template=Path("spec.pytorchReplicaSpecs{Master,Worker}.template"),
                counts=("replicas",),
                succeeded=Path("status.replicaStatuses{Master,Worker}.succeeded"),
            ),
        ),
        labels=PodLabels(
            name=f"{_KUBEFLOW}job-name", group=f"{_KUBEFLOW}replica-type", maker="pytorchjob-controller"
        ),
        controller="kubeflow:training-operator",
        manager="kubeflow.org/training-operator",
        barred=(
            _SCHEDULING,
            # With metrics the operator makes an autoscaler, which no queue counts.
            Barred(
                "spec.elasticPolicy.metrics", "a queue counted its workers; remove spec.elasticPolicy.metrics"
            ),
        ),
    ),
    # mpi-operator 0.8.2, pkg/apis/kubeflow/v2beta1. Its launcher is a Job, and its workers are pods.
    _kubeflow(
        family=Work.MPIJOB,
        kind="MPIJob",
        version="v2beta1",
        resource="mpijobs",
        framework="kubeflow.org/mpijob",
        word="mpiJobs",
        pods=(
            Pods(
                template=Path("spec.mpiReplicaSpecs{Launcher,Worker}.template"),
                counts=("replicas",),
                succeeded=Path("status.replicaStatuses{Launcher,Worker}.succeeded"),
            ),
        ),
        labels=PodLabels(name=f"{_KUBEFLOW}job-name", group=f"{_KUBEFLOW}job-role", maker="mpi-operator"),
        controller="mpi-operator:mpi-operator",
        manager="kubeflow.org/mpi-operator",
        barred=(_SCHEDULING,),
    ),
    # LeaderWorkerSet 0.9.0, api/leaderworkerset/v1. Its pods wait behind Kueue's gate, so there is nothing to
    # suspend, and Kueue makes a Workload for each replica.
    WorkKind(
        family=Work.LWS,
        kind="LeaderWorkerSet",
        group="leaderworkerset.x-k8s.io",
        version="v1",
        resource="leaderworkersets",
        framework="leaderworkerset.x-k8s.io/leaderworkerset",
        word="leaderWorkerSets",
        objects=100,
        kibibytes=128,
        pods=(
            Pods(template=Path(f"{_LWS}.leaderTemplate"), name="leader"),
            Pods(
                template=Path(f"{_LWS}.workerTemplate"),
                counts=(f"{_LWS}.size",),
                first=f"{_LWS}.leaderTemplate",
                gangs="spec.replicas",
                name="worker",
            ),
        ),
        labels=PodLabels(name=f"{_LWS_LABELS}name", gang=f"{_LWS_LABELS}group-index"),
        controller="lws-system",
        managers=(),
        barred=(_volumes(f"{_LWS}.volumeClaimTemplates"),),
        serves=True,
        prefix=_LWS_LABELS,
        free=("exclusive-topology", "subgroup-exclusive-topology", "experimental-recreate-group-after-start"),
    ),
    # Kubeflow Trainer 2.3.0, pkg/apis/trainer/v1alpha1. Its pods are those of a JobSet that the controller
    # makes of a runtime. Kueue 0.19.2 computes them by Trainer 2.2.1: muster-work refuses what differs.
    WorkKind(
        family=Work.TRAINJOB,
        kind="TrainJob",
        group="trainer.kubeflow.org",
        version="v1alpha1",
        resource="trainjobs",
        framework="trainer.kubeflow.org/trainjob",
        word="trainJobs",
        objects=150,
        kibibytes=32,
        pods=(
            Pods(template=Path(_TRAINER), counts=(f"{_TRAINER}.numNodes",), name="node", is_of_runtime=True),
        ),
        controller="kubeflow-system:kubeflow-trainer-controller-manager",
        manager="trainer.kubeflow.org/trainjob-controller",
        kept=("spec.runtimeRef", "spec.initializer", _TRAINER, "spec.runtimePatches"),
        makes=Work.JOBSET,
    ),
    WorkKind(
        family=Work.STATEFULSET,
        kind="StatefulSet",
        group="apps",
        version="v1",
        resource="statefulsets",
        framework="statefulset",
        word="statefulSets",
        objects=100,
        kibibytes=64,
        pods=(Pods(template=Path("spec.template"), counts=("spec.replicas",), name="main"),),
        labels=PodLabels(owner="StatefulSet"),
        managers=(),
        barred=(_volumes("spec.volumeClaimTemplates"),),
        serves=True,
        elective=True,
    ),
    # Kueue makes a Workload for each pod, and KAI a pod group.
    WorkKind(
        family=Work.DEPLOYMENT,
        kind="Deployment",
        group="apps",
        version="v1",
        resource="deployments",
        framework="deployment",
        word="deployments",
        objects=100,
        kibibytes=64,
        pods=(Pods(template=Path("spec.template"), gangs="spec.replicas", name="main"),),
        labels=PodLabels(owner="ReplicaSet", suffix="pod-template-hash"),
        managers=(),
        serves=True,
        elective=True,
    ),
)
SERVED: Final = (Work.RAY, Work.JOB)
"""What a stack serves that names nothing else."""

FOR_MEMBERS: Final = tuple(each for each in WORK if each.is_for_members)
QUEUED: Final = tuple(each for each in WORK if each.is_queued)
RAY: Final = tuple(each for each in QUEUED if each.is_ray)
GROUPED: Final = tuple(each for each in WORK if any(pods.template.groups for pods in each.pods))
BROUGHT: Final = tuple(each for each in WORK if each.controller)
GATED: Final = tuple(each for each in WORK if each.labels)
"""Beside Ray's: with KAI their pods wait behind our gate."""
COUNTED: Final = tuple(each for each in WORK if each.family not in SERVED)
"""Whose pods are where their rows say, and nowhere else."""
PARTS: Final = tuple(each for each in WORK if each.is_part)
BY_KIND: Final = {each.kind: each for each in WORK}


def made_later(kind: WorkKind, spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The groups whose pods are made once others of the object run, each with the field that says so."""
    match kind.family:
        case Work.JOBSET:
            jobs = spec.get("replicatedJobs")
            listed = [each for each in jobs if isinstance(each, Mapping)] if isinstance(jobs, list) else []
            in_order = value_at(spec, "startupPolicy.startupPolicyOrder") == "InOrder"
            for number, job in enumerate(listed):
                if job.get("dependsOn"):
                    yield str(job.get("name")), "dependsOn"
                elif in_order and number:
                    yield str(job.get("name")), "startupPolicy InOrder"
        case Work.LWS if spec.get("startupPolicy") == "LeaderReady":
            yield "worker", "startupPolicy LeaderReady"
        case Work.TRAINJOB if spec.get("initializer"):
            yield "node", "an initializer"
        case Work.MPIJOB if spec.get("launcherCreationPolicy") == "WaitForWorkersReady":
            yield "Launcher", "launcherCreationPolicy WaitForWorkersReady"


def by_group(kinds: Iterable[WorkKind]) -> dict[str, tuple[str, ...]]:
    """Their resources by API group, in order."""
    groups: dict[str, tuple[str, ...]] = {}
    for each in kinds:
        groups[each.group] = (*groups.get(each.group, ()), each.resource)
    return groups
