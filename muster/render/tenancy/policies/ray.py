"""The size of a Ray cluster and the cluster of a RayJob: never more than its queue counted.

Refuses the ways around a queue: a cluster that its head scales, a group whose bounds exceed its replicas, a
second cluster beside the first, and a group that is added to a running cluster; and a job in an existing
cluster, which with Kueue never starts.
"""

from muster.model import names, ray_submission, ray_upgrades
from muster.model import ray as ray_groups
from muster.model import ray as ray_scaling
from muster.model.stack import Scheduler, Stack
from muster.model.work import RAY
from muster.render.tenancy.policies.pod_templates import BEFORE, ray_spec
from muster.render.tenancy.policies.policy import Policy, Rule, kinds_of
from muster.render.tenancy.policies.work import UNLESS


def ray(stack: Stack) -> Policy:
    return Policy(
        name="muster-ray-size",
        purpose=(
            "A Ray cluster takes no more than its queue counted, and a RayJob has a cluster of its own."
        ),
        kinds=kinds_of(RAY),
        unless=UNLESS,
        words=(
            ("cluster", f"dyn({ray_spec('object')})"),
            ("groups", "variables.cluster.?workerGroupSpecs.orValue([])"),
            BEFORE,
            ("clusterBefore", f"dyn({ray_spec('variables.before')})"),
            ("groupsBefore", "variables.clusterBefore.?workerGroupSpecs.orValue([])"),
        ),
        rules=(
            *((_added(),) if stack.scheduler is Scheduler.KUEUE else (_selector(),)),
            *never_counted(stack),
        ),
    )


def never_counted(stack: Stack) -> tuple[Rule, ...]:
    """Work that its queue cannot count, or never starts. Kueue counts once, when it admits a job; KAI's gate
    counts every pod.
    """
    is_kueue = stack.scheduler is Scheduler.KUEUE
    return (*((*_scaling(), *_upgrades(), _suspended()) if is_kueue else ()), _bounds())


def _upgrades() -> tuple[Rule, ...]:
    return (
        Rule(holds=ray_upgrades.SERVICE_IN_CEL, message=f"'{ray_upgrades.SERVICE_MESSAGE}'"),
        Rule(holds=ray_upgrades.CLUSTER_IN_CEL, message=f"'{ray_upgrades.CLUSTER_MESSAGE}'"),
    )


def _added() -> Rule:
    """KubeRay makes its pods at once, before Kueue has seen that they are not counted."""
    return Rule(
        holds="request.operation != 'UPDATE' || request.resource.resource == 'rayjobs' || "
        "variables.clusterBefore.?suspend.orValue(false) || "
        "variables.groups.size() <= variables.groupsBefore.size()",
        message="'a worker group added to running work would start before its queue has counted it; "
        "create a new ' + object.kind + ' with it'",
    )


def _scaling() -> tuple[Rule, ...]:
    return (
        Rule(holds=ray_scaling.CLUSTER_IN_CEL, message=f"'{ray_scaling.CLUSTER_MESSAGE}'"),
        Rule(holds=ray_scaling.OWNED_IN_CEL, message=f"'{ray_scaling.OWNED_MESSAGE}'"),
    )


def _suspended() -> Rule:
    return Rule(holds=ray_submission.SELECTOR_IN_CEL, message=f"'{ray_submission.SELECTOR_MESSAGE}'")


def _bounds() -> Rule:
    """The queue counts replicas."""
    return Rule(
        holds=f"variables.groups.all(group, {ray_groups.IN_CEL})",
        message=f"'group ' + variables.groups.filter(group, !({ray_groups.IN_CEL}))[0].groupName + "
        f"' would run a different number of workers than its queue counts; {ray_groups.FIX}'",
    )


def _selector() -> Rule:
    """With KAI. Every RayCluster of a team's namespace is queued, so a job that names one of them runs in a
    queue. By this one key KubeRay finds a cluster, by its name and in the job's own namespace (1.6,
    constant.go).
    """
    return Rule(
        holds=f"object.spec.?clusterSelector.orValue(dyn({{}})).all(key, key == '{names.RAY_CLUSTER_LABEL}')",
        message=f"'a RayJob runs in a cluster of its own namespace: set "
        f"spec.clusterSelector[{names.RAY_CLUSTER_LABEL}] to its name "
        "and nothing else, or write spec.rayClusterSpec'",
    )
