"""What a job asks of its priority and its scheduler that can never be granted.

Each answer names what is allowed. Pure functions of the job and the queue tree; what its pods need of nodes
is checked in limits.py, what they need of the queue in queue_limits.py.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from muster.controller.kube.resource import Object
from muster.controller.kueue.jobs import JobPodSet, RayCluster, RayClusterSpec, RayJobSpec, RayService
from muster.controller.kueue.limits import Pools
from muster.model import names, ray_groups, ray_scaling, ray_submission, ray_upgrades
from muster.model.queuetree import QueueTree, Space

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


def taints(job_pod_sets: Iterable[JobPodSet], pools: Pools) -> Iterator[str]:
    """Pods to which Kueue assigns no pool, because all that are left to them have the taint of GPUs."""
    for pod_set in job_pod_sets:
        tolerating = replace(pod_set, tolerates_gpus=True)
        if pod_set.count and not pools.suited(pod_set) and pools.suited(tolerating):
            yield (
                f"{pod_set.name} does not tolerate the taint {names.GPU_TAINT_KEY} of nodes with GPUs, and "
                "no others are open to it; add to the tolerations of its pod template: "
                f"{{key: {names.GPU_TAINT_KEY}, operator: Exists}}"
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


def scale_up(obj: Object, spec: RayClusterSpec | None, tree: QueueTree) -> Iterator[str]:
    """A cluster that becomes larger than what was counted when it was admitted."""
    if spec is None:
        return
    if not tree.kai:
        elastic = obj.metadata.annotations.get(names.ELASTIC_JOB) == "true"
        scales = spec.enable_in_tree_autoscaling
        yield from ray_scaling.violations(type(obj).__name__, scales=scales, is_elastic=elastic)
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


def submission(spec: RayJobSpec, tree: QueueTree) -> Iterator[str]:
    """KubeRay 1.6 fails a K8sJobMode job with KAI forever: its submitter is outside the pod group
    (ray-operator/controllers/ray/batchscheduler/kai-scheduler, DoBatchSchedulingOnSubmission).
    """
    if tree.kai and spec.submission_mode in ("", "K8sJobMode"):
        yield "submissionMode K8sJobMode does not work with KAI; set spec.submissionMode: HTTPMode"
    if spec.cluster_selector and not tree.kai:
        yield ray_submission.SELECTOR_MESSAGE
