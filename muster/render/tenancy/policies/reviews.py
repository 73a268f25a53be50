"""Work that could never start, or never be stopped, by what is in the object and in the stack alone.

Unlike the other policies it is in force in every tenancy mode, for everyone who creates work in the namespace
of a team: its author gains nothing by it, and would wait for ever. Where the tenancy policies are enforced as
well, this one leaves out what they refuse. What has figures (nodes, quotas) is the webhooks' to review
(docs/decisions/019-reviews-in-the-api-server.md).
"""

from typing import Final

from muster.model import names, ray_upgrades
from muster.model.stack import Scheduler, Stack
from muster.model.tenancy import TenancyMode
from muster.model.work import RAY
from muster.render.tenancy.policies.pod_templates import BEFORE, CLUSTER_PATH, cluster_word
from muster.render.tenancy.policies.policy import Policy, Rule, fault, kinds_of
from muster.render.tenancy.policies.ray import never_counted
from muster.render.tenancy.policies.work import UNLESS, listed, stopping

RAY_CLUSTER_NAME: Final = 53
RAY_JOB_NAME: Final = 47
"""KubeRay 1.6 fails longer names after Kueue has reserved their quota, which is then never released
(ray-operator/controllers/ray/utils/constant.go)."""
# A DNS-1035 label. The API server also takes names that begin with a digit or have dots; KubeRay 1.6 fails
# them where it fails longer ones (ray-operator/controllers/ray/utils/validation.go).
_RAY_NAME: Final = "^[a-z]([-a-z0-9]*[a-z0-9])?$"
# The name of a PodSet, which is a group's in lower case (Kueue 0.19, apis/kueue/v1beta2/workload_types.go).
_POD_SET: Final = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_LONGEST_POD_SET: Final = 63
MOST_POD_SETS: Final = 18
"""Kueue 0.19 takes no Workload with more (v1beta2 CRD, spec.podSets)."""

_IS_RAY_JOB: Final = "request.resource.resource == 'rayjobs'"
_SELECTS: Final = "{of}.spec.?clusterSelector.orValue(dyn({{}})).size() > 0"
# A pod of its own submits in this mode, which is KubeRay's default.
_SUBMITS: Final = f"({_IS_RAY_JOB} && {{of}}.spec.?submissionMode.orValue('') in ['', 'K8sJobMode'])"
# Kueue queues its owner in its place. The Jobs of a CronJob it queues themselves.
_IS_MADE: Final = (
    "request.resource.resource in ['rayclusters', 'jobs'] && "
    "object.metadata.?ownerReferences.orValue([]).exists(owner, "
    "owner.?controller.orValue(false) && owner.kind != 'CronJob')"
)


def reviews(stack: Stack) -> Policy:
    is_enforced = stack.tenancy.mode is TenancyMode.ENFORCE
    words = [("clusterPath", CLUSTER_PATH), BEFORE]
    if not is_enforced:
        words += [
            ("queues", listed(names.QUEUES_ANNOTATION)),
            ("priorities", listed(names.PRIORITIES_ANNOTATION)),
        ]
    for when, of in (("Before", "variables.before"), ("", "object")):
        words += _words(stack, when, of)
    return Policy(
        name="muster-reviews",
        purpose=(
            "Work that could never start, or never be stopped, would wait forever. In force in every "
            "tenancy mode."
        ),
        kinds=kinds_of(RAY if is_enforced else (each for each in stack.judged_work if each.is_for_members)),
        unless=(*UNLESS, ("made-for-another", _IS_MADE)),
        words=(
            *words,
            ("new", "variables.faults.filter(fault, !(fault in variables.faultsBefore))"),
        ),
        rules=(
            Rule(
                holds="variables.new.size() == 0",
                message="object.kind + ' ' + object.metadata.?name.orValue('(unnamed)') + "
                "' would never run: ' + variables.new.join('; also: ')",
            ),
            *(() if is_enforced else _not_enforced(stack)),
        ),
    )


def _not_enforced(stack: Stack) -> tuple[Rule, ...]:
    """Rules of the policies that are not enforced. They know no object from before themselves."""
    unchanged = "request.operation == 'UPDATE' && object.spec == oldObject.spec"
    return tuple(
        Rule(holds=f"({unchanged}) || ({rule.holds})", message=rule.message)
        for rule in (*never_counted(stack), stopping())
    )


def _words(stack: Stack, when: str, of: str) -> list[tuple[str, str]]:
    """The variables of an object, in its new or old state. `faults` are CEL strings: what is wrong, and the
    fix.
    """
    found = [*_submission(stack, of), *_name(of)]
    found += _pod_sets(when) if stack.scheduler is Scheduler.KUEUE else []
    faults = f"(request.resource.group != 'ray.io' ? [] : {' + '.join(found)})"
    labels = []
    if stack.tenancy.mode is not TenancyMode.ENFORCE:
        faults += "".join(f" + {each}" for each in _labels(stack, when))
        own, scheduled = f"{of}.metadata.?labels", f"{of}.spec.?jobTemplate.?metadata.?labels"
        found_in = f"(request.resource.resource == 'cronjobs' ? {scheduled} : {own})"
        labels.append((f"labels{when}", f"{found_in}.orValue(dyn({{}}))"))
    return [
        cluster_word(when, of),
        (f"groups{when}", f"variables.cluster{when}.?workerGroupSpecs.orValue([])"),
        (f"podSets{when}", _names_of_pod_sets(when, of)),
        *labels,
        (f"faults{when}", f"oldObject == null ? [] : ({faults})" if when else faults),
    ]


def _submission(stack: Stack, of: str) -> list[str]:
    """How a RayJob is started, and that it ends. KubeRay 1.6 fails a K8sJobMode job with KAI forever: its
    submitter is outside the pod group (ray-operator/controllers/ray/batchscheduler/kai-scheduler,
    DoBatchSchedulingOnSubmission).
    """
    found = []
    if stack.scheduler is Scheduler.KAI:
        found.append(
            fault(
                _SUBMITS.format(of=of),
                "'submissionMode K8sJobMode does not work with KAI; set spec.submissionMode: HTTPMode'",
            )
        )
    if stack.scheduler is Scheduler.KAI or stack.tenancy.mode is not TenancyMode.ENFORCE:
        stops = f"{of}.spec.?shutdownAfterJobFinishes.orValue(false)"
        found.append(
            fault(
                f"{_IS_RAY_JOB} && !{stops} && !({_SELECTS.format(of=of)})",
                "'shutdownAfterJobFinishes is not set, so its cluster would keep the quota when the job is "
                "done; set spec.shutdownAfterJobFinishes: true'",
            )
        )
    return found


def _name(of: str) -> list[str]:
    """With generateName the server has added its five characters by now."""
    name = f"{of}.metadata.?name.orValue('')"
    most = f"(request.resource.resource == 'rayclusters' ? {RAY_CLUSTER_NAME} : {RAY_JOB_NAME})"
    own = f"!({_SELECTS.format(of=of)})"
    return [
        fault(
            f"{own} && {name}.size() > {most}",
            f"'its name has ' + string({name}.size()) + ' characters; KubeRay takes at most ' + "
            f"string({most}) + '; shorten metadata.name'",
        ),
        fault(
            f"{own} && {name} != '' && !{name}.matches('{_RAY_NAME}')",
            f"'KubeRay does not take its name ' + {name} + '; write a metadata.name of a-z, 0-9 and - that "
            "begins with a letter and does not end with -'",
        ),
    ]


def _names_of_pod_sets(when: str, of: str) -> str:
    """Those that Kueue gives to the pods of a Ray cluster; none of a job in a cluster of another."""
    submitter = f"({_SUBMITS.format(of=of)} ? ['submitter'] : [])"
    return (
        f"variables.cluster{when}.size() == 0 ? [] : ['head'] + "
        f"variables.groups{when}.map(group, group.?groupName.orValue('').lowerAscii()) + {submitter}"
    )


def _pod_sets(when: str) -> list[str]:
    """Groups that Kueue can make no PodSets of: it tries forever, and the job waits in no queue. Less of what
    was too much is let through, although it is too much still.
    """
    listed, before = f"variables.podSets{when}", "variables.podSetsBefore"
    wrong = f"{listed}.filter(name, name.size() > {_LONGEST_POD_SET} || !name.matches('{_POD_SET}'))"
    alike = (
        f"{listed}.filter(name, {listed}.filter(other, other == name).size() > 1 && "
        f"{before}.filter(other, other == name).size() < 2)"
    )
    strategy = f"variables.cluster{when}.?upgradeStrategy.?type.orValue('')"
    is_idle = "group.?suspend.orValue(false) && group.?replicas.orValue(1) > 0"
    idle = f"variables.groups{when}.filter(group, {is_idle})"
    return [
        fault(
            f"request.resource.resource != 'rayclusters' && {strategy} != ''",
            f"variables.clusterPath + '.upgradeStrategy {ray_upgrades.WITHIN_MESSAGE}'",
        ),
        f"{idle}.map(group, 'group ' + group.?groupName.orValue('') + ' is suspended, and its queue would "
        "wait for pods that are never made; remove its suspend, or set its replicas to 0')",
        f"{wrong}.map(name, 'group ' + name + ' cannot be queued by this name; write a groupName of at most "
        f"{_LONGEST_POD_SET} of a-z, 0-9 and -, beginning and ending with one of a-z, 0-9')",
        fault(
            f"{alike}.size() > 0",
            f"'groups of its pods have the same name in lower case (' + {alike}.join(', ') + '); give each "
            "worker group a groupName of its own, other than head and submitter'",
        ),
        fault(
            f"{listed}.size() > {MOST_POD_SETS} && {listed}.size() > {before}.size()",
            f"'its ' + string({listed}.size()) + ' groups of pods are more than the {MOST_POD_SETS} that "
            "queue; merge some'",
        ),
    ]


def _labels(stack: Stack, when: str) -> list[str]:
    """A RayJob without a queue would run beside all of them; a priority that is missing is not granted."""
    is_kai = stack.scheduler is Scheduler.KAI
    queue = names.KAI_QUEUE_LABEL if is_kai else names.QUEUE_LABEL
    priority = names.KAI_PRIORITY_LABEL if is_kai else names.PRIORITY_LABEL
    named = f"variables.labels{when}[?'{priority}'].orValue('')"
    return [
        fault(
            f"{_IS_RAY_JOB} && variables.labels{when}[?'{queue}'].orValue('') == '' && "
            "variables.queues.size() > 0",
            f"'it names no queue; set metadata.labels[{queue}] to one of: ' + variables.queues.join(', ')",
        ),
        fault(
            f"{named} != '' && variables.priorities.size() > 0 && !({named} in variables.priorities)",
            f"'priority ' + {named} + ' is not available to this namespace; set label {priority} to one "
            f"of: ' + "
            "variables.priorities.join(', ')",
        ),
    ]
