"""Where each kind of work has its Ray cluster and its pod templates, as CEL variables that policies share.

A CronJob and a RayCronJob are read as the job that they make. Decides nothing.
"""

from collections.abc import Sequence
from typing import Final

from muster.model.work import WORK
from muster.render.tenancy.policies.policy import Kinds, kinds_of

KINDS: Final = kinds_of(WORK)
# What makes pods outside of every queue. No member may write it, and the role `edit` may.
UNQUEUED: Final = (
    Kinds(group="apps", resources=("deployments", "statefulsets", "daemonsets", "replicasets")),
    Kinds(group="", resources=("replicationcontrollers",)),
)

BEFORE: Final = ("before", "oldObject == null ? dyn({'metadata': {}, 'spec': {}}) : dyn(oldObject)")
# For a CronJob a message names the field within its Job.
JOB_PATH: Final = ("jobPath", "request.resource.resource == 'cronjobs' ? 'spec.jobTemplate.' : ''")
# Where each of Ray's kinds has its cluster.
CLUSTER_PATH: Final = (
    f"{{{', '.join(f'{each.resource!r}: {each.cluster!r}' for each in WORK if each.cluster)}}}"
    "[?request.resource.resource].orValue('')"
)
_SCHEDULED: Final = "request.resource.resource == 'raycronjobs'"


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
    """The job, its Ray cluster, and every pod template with its path, each with the suffix `when`. They need
    the words `JOB_PATH` and `("clusterPath", CLUSTER_PATH)`.
    """
    read, cluster = f"variables.job{when}", f"variables.cluster{when}"
    submitter = f"({_SCHEDULED} ? 'spec.jobTemplate' : 'spec') + '.submitterPodTemplate'"
    parts = (
        _part(f"{read}.?spec.?template", f"{read}.spec.template", "variables.jobPath + 'spec.template'"),
        _part(f"{read}.?spec.?submitterPodTemplate", f"{read}.spec.submitterPodTemplate", submitter),
        _part(
            f"{cluster}.?headGroupSpec.?template",
            f"{cluster}.headGroupSpec.template",
            "variables.clusterPath + '.headGroupSpec.template'",
        ),
        f"{cluster}.?workerGroupSpecs.orValue([]).filter(group, has(group.template)).map(group, "
        "{'path': dyn(variables.clusterPath + '.workerGroupSpecs of ' + group.?groupName.orValue('')), "
        "'template': dyn(group.template)})",
        f"variables.jobs{when}.filter(group, group.?template.?spec.?template.hasValue()).map(group, "
        "{'path': dyn('spec.replicatedJobs of ' + group.?name.orValue('') + ': template.spec.template'), "
        "'template': dyn(group.template.spec.template)})",
    )
    return [
        (f"job{when}", job(of)),
        jobs_word(when, of),
        cluster_word(when, of),
        (f"parts{when}", " + ".join(parts)),
        (f"templates{when}", f"variables.parts{when}.map(part, part.template)"),
    ]


def jobs_word(when: str, of: str) -> tuple[str, str]:
    """The groups of batch jobs of a JobSet; none of any other kind."""
    is_set = "request.resource.resource == 'jobsets'"
    return f"jobs{when}", f"{is_set} ? dyn({of}.spec.?replicatedJobs.orValue([])) : dyn([])"


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
