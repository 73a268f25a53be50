"""What is refused when a job is created or changed, because no node or queue could ever hold it.

Of a change only what is new in it: an existing object must stay changeable, deletable and finishable whatever
the policy says today. Pure functions of the object, and of the GangPolicy and the QueueTree in the cache. The
webhook configuration selects the namespaces (those of teams). What needs no sum is refused by
ValidatingAdmissionPolicies, without a process (docs/decisions/019-reviews-in-the-api-server.md).
"""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Final

from muster.controller.kube.resource import Object, T
from muster.controller.kueue import queue_limits
from muster.controller.kueue.jobs import (
    CronJob,
    Job,
    JobPodSet,
    RayCluster,
    RayJob,
    RayService,
    are_within,
    job_pod_sets_of,
    ray_pod_sets,
    submitter_pod_sets,
)
from muster.controller.kueue.limits import Pools, never_fits_anywhere, taints
from muster.controller.runtime.review import Allow, Deny, Review, Verdict, Webhook
from muster.model import names
from muster.model.gangpolicy import GangPolicy
from muster.model.queuetree import QueueTree

_FIGURE: Final = re.compile(r"(?<![\w.-])\d+(\.\d+)?(?![\w-])")
"""A number in a finding; digits in a name are none."""

Policy = Callable[[], GangPolicy | None]
Tree = Callable[[], QueueTree]


class Reviews:
    """The reviews, bound to the policy and the queue tree that are in force when each is made."""

    def __init__(self, policy: Policy, tree: Tree = QueueTree) -> None:
        self._policy, self._tree = policy, tree

    def listed(
        self,
    ) -> tuple[Webhook[RayJob], Webhook[RayCluster], Webhook[RayService], Webhook[Job], Webhook[CronJob]]:
        """One webhook a kind, at `/validate-<kind>`."""
        return (
            Webhook(path="/validate-rayjob", type=RayJob, review=self.ray_job),
            Webhook(path="/validate-raycluster", type=RayCluster, review=self.ray_cluster),
            Webhook(path="/validate-rayservice", type=RayService, review=self.ray_service),
            Webhook(path="/validate-job", type=Job, review=self.job),
            Webhook(path="/validate-cronjob", type=CronJob, review=self.cron_job),
        )

    def ray_job(self, review: Review[RayJob]) -> Verdict:
        return _judged(review, "RayJob", self._ray_job)

    def ray_cluster(self, review: Review[RayCluster]) -> Verdict:
        if review.operation == "UPDATE" and review.object is not None and _is_elastic(review.object):
            return Allow()  # Its autoscaler asks for what it would like; Kueue lets a step wait.
        return _judged(review, "RayCluster", self._ray_cluster)

    def ray_service(self, review: Review[RayService]) -> Verdict:
        return _judged(review, "RayService", self._ray_service)

    def job(self, review: Review[Job]) -> Verdict:
        return _judged(review, "Job", self._job)

    def cron_job(self, review: Review[CronJob]) -> Verdict:
        return _judged(review, "CronJob", lambda made, space: self._job(made.spec.job_template, space))

    def _ray_job(self, job: RayJob, namespace: str) -> Iterator[str]:
        if not job.spec.cluster_selector:
            pod_sets = chain(ray_pod_sets(job.spec.ray_cluster_spec), submitter_pod_sets(job.spec))
            yield from self._fit(namespace, job, pod_sets)

    def _ray_cluster(self, cluster: RayCluster, namespace: str) -> Iterator[str]:
        if not _is_made(cluster):  # What KubeRay makes for a RayJob or RayService has been reviewed.
            yield from self._fit(namespace, cluster, ray_pod_sets(cluster.spec))

    def _ray_service(self, service: RayService, namespace: str) -> Iterator[str]:
        yield from self._fit(namespace, service, ray_pod_sets(service.spec.ray_cluster_config))

    def _job(self, job: Job, namespace: str) -> Iterator[str]:
        if not _is_made(job):
            yield from self._fit(namespace, job, job_pod_sets_of(job))

    def _fit(self, namespace: str, obj: Object, job_pod_sets: Iterable[JobPodSet]) -> Iterator[str]:
        policy, tree = self._policy(), self._tree()
        space = tree.spaces.get(namespace)
        queue = None if space is None else space.queue(_queue_of(obj, tree))
        try:
            listed = list(job_pod_sets)
        except ValueError as error:
            yield f"a resource amount cannot be read: {error}"
            return
        pools = None if policy is None else Pools(policy=policy, queue=queue)
        if pools is not None:
            yield from taints(listed, pools)
            if reason := never_fits_anywhere(listed, pools):
                yield reason
        if queue is not None:
            yield from queue_limits.uncovered(listed, queue, tree)
            yield from queue_limits.over_quota(listed, queue, pools)


def _verdict(obj: Object, kind: str, found: list[str]) -> Verdict:
    if not found:
        return Allow()
    name = obj.metadata.name or "(unnamed)"
    return Deny(f"{kind} {name} would never run: {'; also: '.join(found)}.")


def _judged(review: Review[T], kind: str, findings: Callable[[T, str], Iterator[str]]) -> Verdict:
    """Of a change only what it brings: what was allowed once stays changeable, whatever is allowed today."""
    if review.object is None or review.operation not in ("CREATE", "UPDATE"):
        return Allow()
    found = list(findings(review.object, review.namespace))
    if found and review.operation == "UPDATE":
        known = found if review.old is None else list(findings(review.old, review.namespace))
        found = [each for each in found if each not in known]
        if found and review.old is not None and _asks_for_no_more(review.object, review.old):
            subjects = {_FIGURE.sub("", each) for each in known}
            found = [each for each in found if _FIGURE.sub("", each) not in subjects]
    return _verdict(review.object, kind, found)


def _asks_for_no_more(now: Object, before: Object) -> bool:
    """Less of what was too much is let through, although it is too much still."""
    try:
        return are_within(_pod_sets(now), _pod_sets(before))
    except ValueError:
        return False


def _pod_sets(obj: Object) -> Iterator[JobPodSet]:
    match obj:
        case RayJob(spec=spec):
            yield from ray_pod_sets(spec.ray_cluster_spec)
            yield from submitter_pod_sets(spec)
        case RayCluster(spec=spec):
            yield from ray_pod_sets(spec)
        case RayService(spec=spec):
            yield from ray_pod_sets(spec.ray_cluster_config)
        case Job():
            yield from job_pod_sets_of(obj)
        case CronJob(spec=spec):
            yield from job_pod_sets_of(spec.job_template)


def _is_elastic(cluster: RayCluster) -> bool:
    return cluster.metadata.annotations.get(names.ELASTIC_JOB) == "true"


def _queue_of(obj: Object, tree: QueueTree) -> str:
    return obj.metadata.labels.get(names.KAI_QUEUE_LABEL if tree.kai else names.QUEUE_LABEL, "")


def _is_made(obj: Object) -> bool:
    """By a controller, for something else, which Kueue queues in its place. The Jobs of a CronJob it queues
    themselves.
    """
    return any(owner.controller and owner.kind != "CronJob" for owner in obj.metadata.owner_references)
