"""What a Ray cluster may grow to and where a RayJob may run: never past what its queue counted.

Decides three ways around a queue: a cluster that its head scales, a group whose bounds exceed its replicas,
and a job that picks its cluster by labels.
"""

from typing import Final

from model import ray_groups
from model.render.tenancy.policies.policy import Kinds, Policy, Rule
from model.render.tenancy.policies.work import UNLESS, ray_spec
from model.stack import Scheduler, Stack

ELASTIC_ANNOTATION: Final = "kueue.x-k8s.io/elastic-job"
# The one key by which KubeRay finds a cluster, by its name and in the job's own namespace (1.6, constant.go).
_SELECTOR_KEY: Final = "ray.io/cluster"

_FIXED: Final = "variables.cluster.?enableInTreeAutoscaling.orValue(false) == false"


def ray(stack: Stack) -> Policy:
    return Policy(
        name="muster-ray-size",
        kinds=(Kinds(group="ray.io", resources=("rayjobs", "rayclusters", "rayservices")),),
        unless=UNLESS,
        words=(
            ("cluster", f"dyn({ray_spec('object')})"),
            ("groups", "variables.cluster.?workerGroupSpecs.orValue([])"),
        ),
        rules=(*(_elastic() if stack.scheduler is Scheduler.KUEUE else ()), _bounds(), _selector()),
    )


def _elastic() -> tuple[Rule, ...]:
    elastic = f"object.metadata.?annotations[?'{ELASTIC_ANNOTATION}'].orValue('') == 'true'"
    return (
        Rule(
            holds=f"{_FIXED} || {elastic}",
            says="'a cluster that scales itself outgrows what its queue counted; remove "
            "enableInTreeAutoscaling, or "
            f'set annotation {ELASTIC_ANNOTATION}: "true" so that each step is queued\'',
        ),
    )


def _bounds() -> Rule:
    """The queue counts replicas."""
    return Rule(
        holds=f"variables.groups.all(group, {ray_groups.IN_CEL})",
        says=f"'group ' + variables.groups.filter(group, !({ray_groups.IN_CEL}))[0].groupName + "
        f"' would run another number of workers than its queue counts; {ray_groups.FIX}'",
    )


def _selector() -> Rule:
    """Every RayCluster of a team's namespace is queued, so a job that names one of them runs in a queue."""
    return Rule(
        holds=f"object.spec.?clusterSelector.orValue(dyn({{}})).all(key, key == '{_SELECTOR_KEY}')",
        says=f"'a RayJob runs in a cluster of its own namespace: set "
        f"spec.clusterSelector[{_SELECTOR_KEY}] to its name "
        "and nothing else, or write spec.rayClusterSpec'",
    )
