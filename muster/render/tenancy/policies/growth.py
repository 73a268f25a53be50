"""Work that runs stays as large as its queue counted it.

Kueue counts a job when it admits it. When a running job is changed, Kueue stops it and counts it anew; until
then, for some seconds, its controller has made pods that no queue counted. An elastic job's new pods wait
behind a gate instead (elastic.py). With KAI every pod is counted when it is scheduled.

A change that suspends the job as well is refused, too: its pod templates still hold the claims of the
capacity that it has. Kueue takes them off only when it stops the job itself, and the larger gang would wait
for ever.
"""

from collections.abc import Iterator
from typing import Final

from muster.model import names
from muster.model.stack import Stack
from muster.model.work import GROUPED, WORK
from muster.render.tenancy.policies import elastic, pod_templates
from muster.render.tenancy.policies.policy import Policy, Rule, kinds_of, owned_by_ray
from muster.render.tenancy.policies.work import UNLESS

_PODS: Final = "group.?replicas.orValue(1) * group.?numOfHosts.orValue(1)"
_FIX: Final = "For more, create a new ' + object.kind + ' of that size"
# Kueue adds the gate only to what is elastic when it is created.
_STEPS: Final = (
    f"(object.kind == 'RayCluster' ? '; one with the annotation {names.ELASTIC_JOB} grows in steps' : '')"
)
_GROUPED: Final = [each.resource for each in GROUPED]
_ALONE: Final = [each.resource for each in WORK if each.is_pod_by_pod]
# A Job has no more pods at a time than completions. Those of an Indexed Job may be raised to its parallelism.
_PARALLELISM: Final = "{of}.spec.?parallelism.orValue(1)"
_AT_ONCE: Final = (
    f"({{of}}.spec.?completions.orValue({_PARALLELISM}) < {_PARALLELISM} ? "
    f"{{of}}.spec.completions : {_PARALLELISM})"
)


def growth(stack: Stack) -> Policy:
    return Policy(
        name="muster-growth",
        purpose=(
            "Kueue counts a job when it admits it. What runs must not become larger than that before it"
            " is counted again."
        ),
        kinds=kinds_of((each for each in stack.judged_work if each.is_queued), operations=("UPDATE",)),
        # A cluster that was made for another Ray object is not changed by a tenant at all (owners.py).
        unless=(*UNLESS, ("made-for-another", owned_by_ray("oldObject"))),
        words=(
            pod_templates.JOB_PATH,
            ("clusterPath", pod_templates.CLUSTER_PATH),
            *pod_templates.words("", "object"),
            *pod_templates.words("Before", "oldObject"),
            ("elastic", elastic.IS_ELASTIC),
            ("ran", _ran()),
            ("grown", _grown()),
            *elastic.words(),
        ),
        rules=(
            *elastic.rules(),
            _parallelism(),
            *_groups(),
            _whole(),
            _replicas(),
            _resources(),
            elastic.becomes(),
        ),
    )


def _ran() -> str:
    """Whether new pods would be made at once. KubeRay makes the cluster of a RayJob and does not change it
    afterwards, but makes another one for each retry: one that is elastic is not stopped before that.
    """
    return (
        f"!{pod_templates.is_suspended('oldObject')} && "
        "(request.resource.resource != 'rayjobs' || variables.elastic)"
    )


def _parallelism() -> Rule:
    now, before = (_AT_ONCE.format(of=of) for of in ("object", "oldObject"))
    return Rule(
        holds=f"request.resource.resource != 'jobs' || !variables.ran || {now} <= {before} || "
        f"(variables.elastic && {elastic.gated('object.spec.template')})",
        message=f"'Job ' + object.metadata.name + ' is running, and the number of pods that its queue "
        f"counted is "
        f"' + string({before}) + '; keep or lower spec.parallelism and spec.completions. {_FIX}'",
    )


def _groups() -> Iterator[Rule]:
    """JobSet's own webhook keeps them as they are; these rules need no process."""
    for work in GROUPED:
        groups = work.pods[0].template.groups
        now, before = (f"{pod_templates.optional(of, groups)}" for of in ("object", "oldObject"))
        yield Rule(
            holds=f"request.resource.resource != '{work.resource}' || !variables.ran || {now} == {before}",
            message=f"'{work.kind} ' + object.metadata.name + ' is running, and its queue counted its pods; "
            f"leave {groups} as it is. {_FIX}'",
        )


def _whole() -> Rule:
    """Kueue (0.19.2, pkg/controller/jobs/statefulset) lets one go to none and come back with another number,
    of which its Workload knows nothing, and gives its quota back while its pods end one after the other.
    """
    kinds = [each.resource for each in WORK if each.is_one_gang]
    now, before = (f"{of}.spec.?replicas.orValue(1)" for of in ("object", "oldObject"))
    return Rule(
        holds=f"!(request.resource.resource in {kinds}) || {now} == {before}",
        message="object.kind + ' ' + object.metadata.name + ' is one gang of the ' + "
        f"string({before}) + ' pods that its queue counted; leave spec.replicas as it is, or delete it. "
        f"{_FIX}'",
    )


def _grown() -> str:
    """The worker groups that would have more pods than before, and whose new ones would not wait behind
    a gate. A group more is refused in ray.py.
    """
    return (
        "variables.cluster.?workerGroupSpecs.orValue([]).size() > "
        "variables.clusterBefore.?workerGroupSpecs.orValue([]).size() ? [] : "
        "variables.cluster.?workerGroupSpecs.orValue([]).filter(group, "
        f"!(variables.elastic && {elastic.gated('group.?template')}) && "
        "!variables.clusterBefore.?workerGroupSpecs.orValue([]).exists(old, "
        f"old.groupName == group.groupName && {_PODS} <= {_PODS.replace('group.', 'old.')}))"
    )


def _replicas() -> Rule:
    return Rule(
        holds="!variables.ran || variables.grown.size() == 0",
        message="object.kind + ' ' + object.metadata.name + ' is running, and its queue counted the "
        "workers of "
        f"group ' + variables.grown[0].groupName + '; keep or lower replicas and numOfHosts. "
        f"{_FIX}' + {_STEPS}",
    )


def _resources() -> Rule:
    """What a pod of the cluster asks for: pods that KubeRay makes again would be larger. Those of an elastic
    one are judged in elastic.py, a running Job's template is left by the API server as it is, and pods
    that are counted one by one are counted as they are.
    """
    return Rule(
        holds="!variables.ran || variables.elastic || "
        f"request.resource.resource in {['jobs', *_GROUPED, *_ALONE]} || variables.resized.size() == 0",
        message="object.kind + ' ' + object.metadata.name + ' is running, and its queue counted the "
        f"resources of its pods; do not change them in ' + variables.resized[0] + '. {_FIX}'",
    )
