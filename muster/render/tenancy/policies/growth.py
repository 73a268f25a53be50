"""Work that runs stays as large as its queue counted it.

Kueue counts a job when it admits it. When a running job is changed, Kueue stops it and counts it anew; until
then, for some seconds, its controller has made pods that no queue counted. An elastic job's new pods wait
behind a gate instead. With KAI every pod is counted when it is scheduled.

A change that suspends the job as well is refused, too: its pod templates still hold the claims of the
capacity that it has. Kueue takes them off only when it stops the job itself, and the larger gang would wait
for ever.
"""

from typing import Final

from muster.model import names
from muster.render.tenancy.policies.pod_templates import cluster_word
from muster.render.tenancy.policies.policy import Kinds, Policy, Rule
from muster.render.tenancy.policies.who import owned_by_ray
from muster.render.tenancy.policies.work import UNLESS

_KINDS: Final = (
    Kinds(group="batch", resources=("jobs",), operations=("UPDATE",)),
    Kinds(group="ray.io", resources=("rayclusters", "rayservices"), operations=("UPDATE",)),
)
_ELASTIC: Final = f"oldObject.metadata.?annotations[?'{names.ELASTIC_JOB}'].orValue('') == 'true'"
_PODS: Final = "group.?replicas.orValue(1) * group.?numOfHosts.orValue(1)"
_FIX: Final = "For more, make a new ' + object.kind + ' of that size"
# Kueue adds the gate only to what is elastic when it is created.
_STEPS: Final = (
    f"(object.kind == 'RayCluster' ? '; one with the annotation {names.ELASTIC_JOB} grows in steps' : '')"
)
# A Job has no more pods at a time than completions. Those of an Indexed Job may be raised to its parallelism.
_PARALLELISM: Final = "{of}.spec.?parallelism.orValue(1)"
_AT_ONCE: Final = (
    f"({{of}}.spec.?completions.orValue({_PARALLELISM}) < {_PARALLELISM} ? "
    f"{{of}}.spec.completions : {_PARALLELISM})"
)


def growth() -> Policy:
    return Policy(
        name="muster-growth",
        kinds=_KINDS,
        # A cluster that was made for another Ray object is not changed by a tenant at all (ray.py).
        unless=(*UNLESS, ("elastic", _ELASTIC), ("made-for-another", owned_by_ray("oldObject"))),
        words=(
            cluster_word("", "object"),
            cluster_word("Before", "oldObject"),
            (
                "ran",
                "!(request.resource.resource == 'jobs' ? oldObject.spec.?suspend : "
                "variables.clusterBefore.?suspend).orValue(false)",
            ),
            ("grown", _grown()),
        ),
        rules=(_parallelism(), _replicas(), _resources(), _elastic()),
    )


def _parallelism() -> Rule:
    now, before = (_AT_ONCE.format(of=of) for of in ("object", "oldObject"))
    return Rule(
        holds=f"request.resource.resource != 'jobs' || !variables.ran || {now} <= {before}",
        message=f"'Job ' + object.metadata.name + ' runs, and the number of pods that its queue counted is "
        f"' + string({before}) + '; leave spec.parallelism and spec.completions or lower them. {_FIX}'",
    )


def _grown() -> str:
    """The worker groups that would have more pods than before. A group more is refused in ray.py."""
    return (
        "variables.cluster.?workerGroupSpecs.orValue([]).size() > "
        "variables.clusterBefore.?workerGroupSpecs.orValue([]).size() ? [] : "
        "variables.cluster.?workerGroupSpecs.orValue([]).filter(group, "
        "!variables.clusterBefore.?workerGroupSpecs.orValue([]).exists(old, "
        f"old.groupName == group.groupName && {_PODS} <= {_PODS.replace('group.', 'old.')}))"
    )


def _replicas() -> Rule:
    return Rule(
        holds="!variables.ran || variables.grown.size() == 0",
        message="object.kind + ' ' + object.metadata.name + ' runs, and its queue counted the workers of "
        f"group ' + variables.grown[0].groupName + '; leave replicas and numOfHosts or lower them. "
        f"{_FIX}' + {_STEPS}",
    )


def _resources() -> Rule:
    """What a pod of the cluster asks for: pods that KubeRay makes again would be larger."""
    head = _same("variables.cluster.?headGroupSpec", "variables.clusterBefore.?headGroupSpec")
    groups = (
        "variables.cluster.?workerGroupSpecs.orValue([]).all(group, "
        "variables.clusterBefore.?workerGroupSpecs.orValue([]).all(old, old.groupName != group.groupName || "
        f"({_same('group', 'old')})))"
    )
    return Rule(
        holds=f"!variables.ran || ({head} && {groups})",
        message="object.kind + ' ' + object.metadata.name + ' runs, and its queue counted the resources of "
        f"its pods; leave them. {_FIX}'",
    )


def _same(group: str, old: str) -> str:
    return " && ".join(
        f"{_amounts(group, field)} == {_amounts(old, field)}" for field in ("containers", "initContainers")
    )


def _amounts(group: str, field: str) -> str:
    return f"{group}.?template.?spec.?{field}.orValue([]).map(each, each.?resources.orValue(dyn({{}})))"


def _elastic() -> Rule:
    """What was created without the annotation has pods without a gate, also when it starts later."""
    return Rule(
        holds=f"object.metadata.?annotations[?'{names.ELASTIC_JOB}'].orValue('') != 'true'",
        message=f"'annotation {names.ELASTIC_JOB} has an effect when ' + object.kind + ' ' + "
        "object.metadata.name + ' is created, and not afterwards; remove it. For work that grows in steps, "
        "make a new Job or RayCluster with it'",
    )
