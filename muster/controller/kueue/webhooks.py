"""What is refused when a job is created or changed, because no node or queue could ever hold it.

Of a change only what is new in it: an existing object must stay changeable, deletable and finishable whatever
the policy says today. Pure functions of the object, and of the GangPolicy and the QueueTree in the cache. The
webhook configuration selects the namespaces (those of teams). What needs no sum is refused by
ValidatingAdmissionPolicies, without a process (docs/decisions/019-reviews-in-the-api-server.md).
"""

import re
from collections.abc import Callable, Iterator, Sequence
from math import ceil
from typing import Any, Final

from muster.controller.kube.resource import Object
from muster.controller.kueue import queue_limits
from muster.controller.kueue.jobs import (
    KINDS,
    Counted,
    CronJob,
    Job,
    JobPodSet,
    RayCluster,
    RayJob,
    RayJobSpec,
    are_within,
    exclusive_of,
    pod_sets_of,
)
from muster.controller.kueue.limits import (
    Pools,
    lacks_domains,
    lacks_spread,
    never_fits_anywhere,
    no_such_devices,
    no_such_nodes,
    several_pools,
    taints,
    with_parts,
)
from muster.controller.runtime.review import Allow, Deny, Review, Verdict, Webhook
from muster.model import names
from muster.model.gangpolicy import GangPolicy
from muster.model.queuetree import QueueTree

_FIGURE: Final = re.compile(r"(?<![\w.-])\d+(\.\d+)?(?![\w-])")
"""A number in a finding; digits in a name are none."""

Policy = Callable[[], GangPolicy | None]
Tree = Callable[[], QueueTree]


class Reviews:
    """The review, bound to the policy and the queue tree that are in force when it is made."""

    def __init__(self, policy: Policy, tree: Tree = QueueTree) -> None:
        self._policy, self._tree = policy, tree

    def listed(self) -> tuple[Webhook[Any], ...]:
        """One webhook a kind, at `/validate-<kind>`."""
        return tuple(
            Webhook(path=f"/validate-{kind.__name__.lower()}", type=kind, review=self.review)
            for kind in KINDS
        )

    def review(self, review: Review[Any]) -> Verdict:
        """Of a change only what it brings: what was allowed once stays changeable, whatever is allowed
        today.
        """
        now, before, space = review.object, review.old, review.namespace
        if now is None or review.operation not in ("CREATE", "UPDATE"):
            return Allow()
        found = list(self._findings(now, space))
        if found and review.operation == "UPDATE":
            if _is_elastic(now):
                return Allow()  # Its autoscaler asks for what it would like; Kueue lets a step wait.
            known = found if before is None else list(self._findings(before, space))
            found = [each for each in found if each not in known]
            if found and before is not None and _asks_for_no_more(now, before):
                subjects = {_FIGURE.sub("", each) for each in known}
                found = [each for each in found if _FIGURE.sub("", each) not in subjects]
        if not found:
            return Allow()
        what = f"{type(now).__name__} {now.metadata.name or '(unnamed)'}"
        return Deny(f"{what} would never run: {'; also: '.join(found)}.")

    def _findings(self, obj: Object, namespace: str) -> Iterator[str]:
        if isinstance(obj, RayCluster | Job | Counted) and _is_made(obj):
            return  # What it was made for has been reviewed.
        policy, tree = self._policy(), self._tree()
        space = tree.spaces.get(namespace)
        queue = None if space is None else space.queue(_queue_of(obj, tree))
        try:
            listed = list(pod_sets_of(obj))
        except ValueError as error:
            yield f"a resource amount cannot be read: {error}"
            return
        for index, pod_set in enumerate(listed if policy else ()):
            try:
                listed[index] = with_parts(pod_set, policy or GangPolicy(), queue)
            except ValueError as error:
                yield f"{pod_set.name}: {error}; write one such as 0.5, or ask for whole GPUs"
        if policy is not None:
            yield from _by_pools(listed, Pools(policy=policy, queue=queue))
            yield from lacks_domains(exclusive_of(obj), Pools(policy=policy, queue=queue))
        if isinstance(obj, RayJob):
            yield from never_entered(obj.spec, listed)
        if queue is not None:
            pools = None if policy is None else Pools(policy=policy, queue=queue)
            yield from queue_limits.uncovered(listed, queue, tree, policy)
            yield from queue_limits.over_quota(listed, queue, pools)


def never_entered(spec: RayJobSpec, listed: Sequence[JobPodSet]) -> Iterator[str]:
    """What the driver of a RayJob asks of one of Ray's nodes, its pods, above what any has. Where
    rayStartParams say what a node has, its pods do not.
    """
    cluster = spec.ray_cluster_spec
    if cluster is None:
        return
    declared = {*cluster.head_group_spec.ray_start_params}
    declared |= {key for group in cluster.worker_group_specs for key in group.ray_start_params}
    for field, resource, flag, asked in (
        ("entrypointNumCpus", "cpu", "num-cpus", spec.entrypoint_num_cpus),
        ("entrypointNumGpus", names.GPU_RESOURCE, "num-gpus", spec.entrypoint_num_gpus),
    ):
        most = ceil(max((each.amounts.get(resource, 0) for each in listed if each.count), default=0))
        if asked > most and flag not in declared:
            yield (
                f"spec.{field} is {asked:g}, and no pod of its cluster has more than {most}, so it waits "
                f"while the gang holds its nodes; set {field} to {most} or less"
            )


def _by_pools(listed: list[JobPodSet], pools: Pools) -> Iterator[str]:
    """What no pool could ever hold."""
    if reason := several_pools(listed, pools):
        yield reason
        return
    yield from no_such_devices(listed, pools)
    yield from no_such_nodes(listed, pools)
    yield from taints(listed, pools)
    yield from lacks_spread(listed, pools)
    yield from never_fits_anywhere(listed, pools)


def _asks_for_no_more(now: Object, before: Object) -> bool:
    """Less of what was too much is let through, although it is too much still."""
    try:
        return are_within(pod_sets_of(now), pod_sets_of(before))
    except ValueError:
        return False


def _is_elastic(obj: Object) -> bool:
    return isinstance(obj, RayCluster) and obj.metadata.annotations.get(names.ELASTIC_JOB) == "true"


def _queue_of(obj: Object, tree: QueueTree) -> str:
    queued = obj.spec.job_template if isinstance(obj, CronJob) else obj
    return queued.metadata.labels.get(names.KAI_QUEUE_LABEL if tree.kai else names.QUEUE_LABEL, "")


def _is_made(obj: Object) -> bool:
    """By a controller, for something else, which Kueue queues in its place. The Jobs of a CronJob it queues
    themselves.
    """
    return any(owner.controller and owner.kind != "CronJob" for owner in obj.metadata.owner_references)
