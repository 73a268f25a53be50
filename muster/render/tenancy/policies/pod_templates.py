"""Where each kind of work has its Ray cluster and its pod templates, as CEL variables that policies share.

A CronJob and a RayCronJob are read as the job that they make. Decides nothing.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from muster.model.stack import Stack
from muster.model.work import GROUPED, SUSPEND, WORK, Path, WorkKind
from muster.render.tenancy.policies.policy import Kinds, joined, kinds_of, no_faults

# What makes pods outside of every queue. No member may write it, and the role `edit` may.
_UNQUEUED: Final = ("deployments", "statefulsets", "daemonsets", "replicasets")

BEFORE: Final = ("before", "oldObject == null ? dyn({'metadata': {}, 'spec': {}}) : dyn(oldObject)")
# For a CronJob a message names the field within its Job.
JOB_PATH: Final = ("jobPath", "request.resource.resource == 'cronjobs' ? 'spec.jobTemplate.' : ''")
# Where each of Ray's kinds has its cluster.
CLUSTER_PATH: Final = (
    f"{{{', '.join(f'{each.resource!r}: {each.cluster!r}' for each in WORK if each.cluster)}}}"
    "[?request.resource.resource].orValue('')"
)
_SCHEDULED: Final = "request.resource.resource == 'raycronjobs'"


def makers_of_pods(stack: Stack) -> tuple[Kinds, ...]:
    """Work, and what makes pods outside of every queue."""
    work = stack.judged_work
    queued = {each.resource for each in work}
    return (
        *kinds_of(work),
        Kinds(group="apps", resources=tuple(each for each in _UNQUEUED if each not in queued)),
        Kinds(group="", resources=("replicationcontrollers",)),
    )


def ray_spec(of: str) -> str:
    """The spec of the Ray cluster in an object of any kind; empty where there is none."""
    return (
        f"{_SCHEDULED} ? {of}.spec.?jobTemplate.?rayClusterSpec.orValue(dyn({{}})) : "
        f"request.resource.resource == 'rayclusters' ? dyn({of}.spec) : "
        f"{of}.spec.?rayClusterSpec.or({of}.spec.?rayClusterConfig).orValue(dyn({{}}))"
    )


def cluster_word(when: str, of: str) -> tuple[str, str]:
    """The Ray cluster of an object of any group; empty where it has none."""
    return f"cluster{when}", f"request.resource.group == 'ray.io' ? dyn({ray_spec(of)}) : dyn({{}})"


def job(of: str) -> str:
    """The job in an object: the object itself, but for those that make jobs."""
    return (
        f"request.resource.resource == 'cronjobs' ? {of}.spec.?jobTemplate.orValue({of}) : "
        f"{_SCHEDULED} ? dyn({{'metadata': dyn({{}}), "
        f"'spec': dyn({of}.spec.?jobTemplate.orValue(dyn({{}})))}}) : {of}"
    )


def words(when: str, of: str) -> Sequence[tuple[str, str]]:
    """The job, its Ray cluster, its groups, and every pod template with its path, each with the suffix
    `when`. They need the words `JOB_PATH` and `("clusterPath", CLUSTER_PATH)`.
    """
    cluster = f"variables.cluster{when}"
    of_ray = (
        _part(
            f"{cluster}.?headGroupSpec.?template",
            f"{cluster}.headGroupSpec.template",
            "variables.clusterPath + '.headGroupSpec.template'",
        ),
        f"{cluster}.?workerGroupSpecs.orValue([]).filter(group, has(group.template)).map(group, "
        "{'path': dyn(variables.clusterPath + '.workerGroupSpecs of ' + group.?groupName.orValue('')), "
        "'template': dyn(group.template)})",
        *_parts_at((work for work in WORK if work.is_ray), when, of),
    )
    # Deployments and others have theirs where a Job has its own.
    of_others = _parts_at((work for work in WORK if not work.is_ray), when, of)
    return [
        (f"job{when}", job(of)),
        groups_word(when, of),
        cluster_word(when, of),
        (
            f"parts{when}",
            f"request.resource.group == 'ray.io' ? {' + '.join(of_ray)} : {' + '.join(of_others)}",
        ),
        (f"templates{when}", f"variables.parts{when}.map(part, part.template)"),
    ]


def _parts_at(work: Iterable[WorkKind], when: str, of: str) -> Sequence[str]:
    """The parts at the paths of these kinds, a CEL list for each path."""
    return [
        _grouped_parts(path, when)
        if path.groups
        else _part(optional(of, path.text), f"{of}.{path.text}", f"'{path.text}'")
        for path in dict.fromkeys(pods.template for kind in work for pods in kind.pods)
    ]


def _grouped_parts(path: Path, when: str) -> str:
    name = f"'{path.groups} of ' + group.name + ': " if path.field else f"'{path.groups}.' + group.name + '."
    return (
        f"{groups_at(path, when)}.filter(group, {optional('group.of', path.rest)}.hasValue()).map(group, "
        f"{{'path': dyn({name}{path.rest}'), 'template': dyn(group.of.{path.rest})}})"
    )


def groups_word(when: str, of: str) -> tuple[str, str]:
    """What has pods in several groups, with the path `at` and the `name` of each; none of any other kind."""
    groups = []
    for path in dict.fromkeys(pods.template for work in GROUPED for pods in work.pods):
        at = optional(of, path.groups)
        if path.field:
            found, name, group = f"{at}.orValue([])", f"each.?{path.field}.orValue('')", "each"
        else:
            values = f"{at}.orValue(dyn({{}}))"
            found, name = f"{list(path.keys)}.filter(each, each in {values})", "each"
            group = f"{values}[each]"
        groups.append(
            f"{found}.map(each, {{'at': dyn('{path.groups}'), 'name': dyn({name}), 'of': dyn({group})}})"
        )
    grouped = f"request.resource.resource in {[each.resource for each in GROUPED]}"
    return f"groups{when}", f"{grouped} ? {' + '.join(groups)} : []"


def groups_at(path: Path, when: str) -> str:
    """The groups of the word that are at this path."""
    return f"variables.groups{when}.filter(group, group.at == '{path.groups}')"


def values_at(paths: Iterable[Path], when: str = "${when}", of: str = "${of}") -> str:
    """The values at paths of any kind of work, as a CEL list."""
    listed = list(dict.fromkeys(paths))
    alone = ", ".join(optional(of, path.text) for path in listed if not path.groups)
    grouped = (
        f" + {groups_at(path, when)}.map(group, {optional('group.of', path.rest)})"
        for path in listed
        if path.groups
    )
    return f"([{alone}]{''.join(grouped)}).filter(each, each.hasValue()).map(each, each.value())"


def optional(of: str, path: str) -> str:
    return of + "".join(f".?{key}" for key in path.split("."))


def is_suspended(of: str) -> str:
    """Whether work is stopped, which each kind says at its own path."""
    chosen = [
        f"request.resource.resource in {[each.resource for each in WORK if each.suspend == path]} ? "
        f"{optional(of, path)} : "
        for path in dict.fromkeys(each.suspend for each in WORK)
        if path != SUSPEND
    ]
    return f"({''.join(chosen)}{optional(of, SUSPEND)}).orValue(false)"


def _part(found: str, template: str, path: str) -> str:
    return f"({found}.hasValue() ? [{{'path': dyn({path}), 'template': dyn({template})}}] : [])"


def pod_of(path: str, template: str) -> str:
    """What policies read of one template. Ray's autoscaler options have no name of a container."""
    containers = (
        f"{template}.?spec.?initContainers.orValue([]) + {template}.?spec.?containers.orValue([]) + "
        f"{template}.?spec.?ephemeralContainers.orValue([])"
    )
    metadata = f"{template}.?metadata"
    return (
        f"{{'path': dyn({path}), 'spec': dyn({template}.?spec.orValue(dyn({{}}))), "
        f"'containers': dyn({containers}), "
        f"'notes': dyn({metadata}.?annotations.orValue(dyn({{}}))), "
        f"'finalizers': dyn({metadata}.?finalizers.orValue([]))}}"
    )


def faulty(pods: str, faults: str) -> str:
    """Of each of `pods` with a fault its path, and `fixes`: the `faults` of `pod`, which are CEL lists of
    sentences.
    """
    found = f"{pods}.map(pod, {{'path': dyn(pod.path), 'fixes': dyn({faults})}})"
    return f"{found}.filter(pod, !{no_faults('pod.fixes')})"


def new_faults(now: str, before: str) -> str:
    """Of faulty pods what none of those before had."""
    is_old = f"{before}.exists(old, old.fixes.exists(others, fix in others))"
    new = f"pod.fixes.map(some, some.filter(fix, !{is_old}))"
    return faulty(now, new)


def joined_faults(pods: str) -> str:
    """What an author has to change in each of these pods, as one text."""
    return f"{pods}.map(pod, 'In ' + pod.path + ': ' + {joined('pod.fixes')}).join('. ')"


def too_many(most: int) -> str:
    """Whether work of no Ray cluster has more pods at a time than `most`, by the variable `groups`."""
    found = list[str]()
    for pods in dict.fromkeys(pods for work in WORK for pods in work.pods if pods.factors):
        groups = groups_at(pods.template, _WHEN) if pods.template.groups else f"[{{'of': {_OF}}}]"
        counts = [f"{optional('group.of', each)}.orValue(1)" for each in pods.factors]
        found.append(f"{groups}.exists(group, {' || '.join(f'{each} > {most}' for each in counts)})")
        if pods.template.groups or len(counts) > 1:
            found.append(f"{groups}.map(group, {' * '.join(counts)}).sum() > {most}")
    return " ||\n".join(found)


_OF, _WHEN = "${of}", "${when}"
MODEL: Final = {
    "clusterPaths": CLUSTER_PATH,
    "groups": groups_word(_WHEN, _OF)[1],
    "partsOfRay": " + ".join(_parts_at((work for work in WORK if work.is_ray), _WHEN, _OF)),
    # Deployments and others have theirs where a Job has its own.
    "partsOfOthers": " + ".join(_parts_at((work for work in WORK if not work.is_ray), _WHEN, _OF)),
}
"""What follows from the table of kinds of work, for ${name} in every file."""
