"""What a job asks of its queue, its priority and its scheduler that can never be granted.

Each answer names what is allowed. Pure functions of the job and the queue tree; what its pods need of pools
is checked in limits.py.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from muster.controller.kube.resource import Object
from muster.controller.kueue.jobs import JobPodSet, RayCluster, RayClusterSpec, RayService
from muster.model import names, ray_groups, ray_upgrades
from muster.model.names import GPU_RESOURCE
from muster.model.queuetree import ANY_POOL, Queue, QueueTree, Space

# The name of a PodSet, which is a group's in lower case (Kueue 0.19, apis/kueue/v1beta2/workload_types.go).
_POD_SET: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")
_LONGEST_POD_SET: Final = 63


def priority(labels: Mapping[str, str], tree: QueueTree, space: Space) -> Iterator[str]:
    """A priority that there is not, or that the namespace may not use."""
    label = names.KAI_PRIORITY_LABEL if tree.kai else names.PRIORITY_LABEL
    named = labels.get(label, "")
    if named and named not in space.priorities:
        allowed = ", ".join(space.priorities) or "(there is none)"
        yield f"priority {named} is not one of this namespace; set label {label} to one of: {allowed}"


def queue_limit(
    labels: Mapping[str, str], job_pod_sets: Sequence[JobPodSet], tree: QueueTree, space: Space
) -> Iterator[str]:
    """More GPUs than the queue can ever hold, with everything that it may borrow."""
    name = labels.get(names.KAI_QUEUE_LABEL if tree.kai else names.QUEUE_LABEL, "")
    queue = space.queue(name)
    if queue is None or not queue.most:
        return
    for pool, asked in sorted(_asked(job_pod_sets).items()):
        most = _most(queue, pool)
        if asked > most:
            where = f" of pool {pool}" if pool else ""
            yield (
                f"it asks for {asked:g} GPUs{where} at a time and queue {name} holds at most {most}, what it "
                "may borrow included; ask for fewer, or have its quota raised"
            )


def pod_sets(job_pod_sets: Sequence[JobPodSet], tree: QueueTree) -> Iterator[str]:
    """Groups that Kueue can make no PodSets of: it tries forever, and the job waits in no queue."""
    if tree.kai:
        return
    for name, count in Counter(pod_set.name for pod_set in job_pod_sets).items():
        if len(name) > _LONGEST_POD_SET or not _POD_SET.match(name):
            yield (
                f"group {name} cannot be queued by this name; write a groupName of at most "
                f"{_LONGEST_POD_SET} of a-z, 0-9 and -, beginning and ending with one of a-z, 0-9"
            )
        if count > 1:
            yield (
                f"{count} of its groups of pods are called {name}, in lower case; give each worker group a "
                "groupName of its own, other than that of the head or submitter"
            )


def _asked(job_pod_sets: Iterable[JobPodSet]) -> dict[str, float]:
    """Pool -> GPUs of the PodSets that name it; "" -> of all of them together."""
    asked: dict[str, float] = {}
    for pod_set in job_pod_sets:
        gpus = float(pod_set.amounts.get(GPU_RESOURCE, 0)) * pod_set.count
        for pool in {pod_set.pool, ""} if gpus else ():
            asked[pool] = asked.get(pool, 0.0) + gpus
    return asked


def _most(queue: Queue, pool: str) -> int:
    if ANY_POOL in queue.most:
        return queue.most[ANY_POOL]
    return queue.most.get(pool, 0) if pool else sum(queue.most.values())


def scale_up(
    annotations: Mapping[str, str], spec: RayClusterSpec | None, tree: QueueTree, *, is_alone: bool
) -> Iterator[str]:
    """A cluster that becomes larger than what was counted when it was admitted. `is_alone`: no RayJob or
    RayService makes it; of theirs the templates lie in two objects, and claims cannot be kept out of both.
    """
    if spec is None:
        return
    grows = spec.enable_in_tree_autoscaling and not tree.kai
    if grows and not is_alone:
        yield (
            "enableInTreeAutoscaling is for a RayCluster of its own, whose growth is queued step by step; "
            "remove it and give its worker groups the replicas that it needs at most, or submit to an "
            "elastic RayCluster"
        )
    elif grows and annotations.get(names.ELASTIC_JOB) != "true":
        yield (
            "enableInTreeAutoscaling would let it outgrow what its queue counted; remove it, or set "
            f'annotation {names.ELASTIC_JOB}: "true" so that each step is queued'
        )
    for group in spec.worker_group_specs:
        least, replicas, most = group.min_replicas, group.replicas, group.max_replicas
        if not ray_groups.is_counted(least=least, replicas=replicas, most=most):
            said = {"replicas": replicas, "minReplicas": least, "maxReplicas": most}
            given = ", ".join(f"{name} {value}" for name, value in said.items() if value is not None)
            yield f"group {group.group_name} has {given}; {ray_groups.FIX}"


def upgrade(obj: Object, spec: RayClusterSpec | None, tree: QueueTree) -> Iterator[str]:
    """A strategy by which KubeRay would run pods beside its queue, or delete those that it admitted."""
    if spec is None or tree.kai:
        return
    within = spec.upgrade_strategy.type
    if isinstance(obj, RayCluster):
        elastic = obj.metadata.annotations.get(names.ELASTIC_JOB) == "true"
        found = ray_upgrades.violations("RayCluster", said=within, is_elastic=elastic)
    elif isinstance(obj, RayService):
        found = ray_upgrades.violations("RayService", said=obj.spec.upgrade_strategy.type, within=within)
    else:
        found = ray_upgrades.violations("RayJob", said="", within=within)
    for each in found:
        yield f"{each.path} {each.message} Fix: {each.fix}"


def submission(mode: str, tree: QueueTree) -> Iterator[str]:
    """KubeRay 1.6 fails a K8sJobMode job with KAI forever: its submitter is outside the pod group
    (ray-operator/controllers/ray/batchscheduler/kai-scheduler, DoBatchSchedulingOnSubmission).
    """
    if tree.kai and mode in ("", "K8sJobMode"):
        yield "submissionMode K8sJobMode does not work with KAI; set spec.submissionMode: HTTPMode"
