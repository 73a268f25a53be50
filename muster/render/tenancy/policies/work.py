"""Work uses the team's queue and a priority that the team may use, cannot admit itself, and can be stopped.

Responsible for the fields about queue, priority and admission that Ray and batch objects of a team may have
when they are created, and for what may be changed later. An object that was allowed once stays changeable in
all other fields, even after the stack has changed. Whether a gang fits is checked by the webhooks.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from muster.model import names, ray_submission
from muster.model.names import JOB_PARAMETER_PREFIX
from muster.model.stack import Scheduler, Stack
from muster.model.work import QUEUED, WORK
from muster.render.tenancy.policies import pod_templates
from muster.render.tenancy.policies import pods as gpus
from muster.render.tenancy.policies.policy import (
    ADMINISTRATOR,
    MADE_FOR_WORK,
    SYSTEM,
    Policy,
    Rule,
    kinds_of,
    quoted,
)

PREBUILT_LABEL: Final = "kueue.x-k8s.io/prebuilt-workload-name"

# Annotations that bind a pod to provisioned capacity; the controllers write them when the gang has it.
# The others are what those of the first group were called before (sigs.k8s.io/kueue,
# pkg/controller/admissionchecks/provisioning).
_CONSUMING: Final = (
    "autoscaling.x-k8s.io/",
    "cluster-autoscaler.kubernetes.io/consume-provisioning-request",
    "cluster-autoscaler.kubernetes.io/provisioning-class-name",
)
# KAI accepts a group that a pod names itself without checking a queue.
_GROUPING: Final = ("kai.scheduler/skip-podgrouper", "pod-group-name")

UNLESS: Final = (
    ("made-for-work", MADE_FOR_WORK),
    ("changed-by-the-system", f"request.operation == 'UPDATE' && {SYSTEM}"),
)


def work(stack: Stack) -> Policy:
    return Policy(
        name="muster-work",
        purpose="Work uses a queue and a priority of its team, cannot admit itself, and can be stopped.",
        kinds=kinds_of(each for each in stack.judged_work if each.is_for_members),
        unless=UNLESS,
        words=_words(stack),
        rules=(
            *_gpus(stack),
            *_queue(stack),
            *_priority(stack),
            *_admission(stack),
            *_fields(),
            _together(),
            stopping(),
        ),
    )


def _words(stack: Stack) -> Sequence[tuple[str, str]]:
    words = [pod_templates.JOB_PATH, ("clusterPath", pod_templates.CLUSTER_PATH), pod_templates.BEFORE]
    for when, of in (("", "object"), ("Before", "variables.before")):
        words += _object_words(stack, when, of)
    return [
        ("queues", listed(names.QUEUES_ANNOTATION)),
        ("priorities", listed(names.PRIORITIES_ANNOTATION)),
        *words,
    ]


def listed(annotation: str) -> str:
    return (
        f"namespaceObject.metadata.?annotations[?'{annotation}'].orValue('').split(',')"
        ".filter(word, word != '')"
    )


def _object_words(stack: Stack, when: str, of: str) -> list[tuple[str, str]]:
    """The variables of an object, in its new or old state."""
    job = f"variables.job{when}"
    noted = f"variables.templates{when}"
    return [
        *pod_templates.words(when, of),
        (f"labels{when}", f"{job}.?metadata.?labels.orValue(dyn({{}}))"),
        (f"annotations{when}", f"{job}.?metadata.?annotations.orValue(dyn({{}}))"),
        (f"templateLabels{when}", f"{_keys(noted, 'labels')} + {_of_groups(f'variables.cluster{when}')}"),
        (f"templateAnnotations{when}", _keys(noted, "annotations")),
        (f"named{when}", _named_priorities(stack, when)),
    ]


def _keys(templates: str, field: str) -> str:
    return f"{templates}.map(each, each.?metadata.?{field}.orValue(dyn({{}})))"


def _of_groups(cluster: str) -> str:
    """KubeRay gives a pod the labels of its group in place of those of its template (1.6, mergeLabels)."""
    return (
        f"[{cluster}.?headGroupSpec.?labels.orValue(dyn({{}}))] + "
        f"{cluster}.?workerGroupSpecs.orValue([]).map(group, group.?labels.orValue(dyn({{}})))"
    )


def _named_priorities(stack: Stack, when: str) -> str:
    """Every priority that the object names, on itself and in its pods."""
    own = [names.PRIORITY_LABEL] if stack.scheduler is Scheduler.KUEUE else [names.KAI_PRIORITY_LABEL]
    own.append(names.RAY_PRIORITY_LABEL)
    found = [f"[variables.labels{when}[?'{label}'].orValue('')]" for label in own]
    # KAI reads it of pods, and so does Kueue of those that it counts one by one.
    found.append(f"variables.templateLabels{when}.map(each, each[?'{own[0]}'].orValue(''))")
    if stack.scheduler is Scheduler.KAI:
        found.append(f"variables.templates{when}.map(each, each.?spec.?priorityClassName.orValue(''))")
    return f"({' + '.join(found)}).filter(name, name != '')"


def _gpus(stack: Stack) -> tuple[Rule, ...]:
    """The policy `pods` would refuse the pods of such a Job, and its author would see that only in an Event.
    The same holds for an administrator's Job, because the Job's controller creates the pods.
    """
    if not stack.is_gated:
        return ()
    now, before = (f"variables.templates{when}.exists(each, {gpus.asked('each')})" for when in ("", "Before"))
    return (
        Rule(
            holds=f"request.resource.group != 'batch' || !({now}) || {before}",
            message=f"'a batch Job cannot request GPUs here: the gate {names.GANG_GATE} is removed only "
            f"from pods "
            f"of Ray clusters; submit a {gpus.kinds(stack)}, or request none in ' + "
            f"variables.jobPath + 'spec.template ({gpus.WAYS})'",
        ),
    )


def _queue(stack: Stack) -> tuple[Rule, ...]:
    label = names.QUEUE_LABEL if stack.scheduler is Scheduler.KUEUE else names.KAI_QUEUE_LABEL
    now, before = (f"variables.labels{when}[?'{label}'].orValue('')" for when in ("", "Before"))
    unchanged = f"(request.operation == 'UPDATE' && {now} == {before})"
    fix = f"'set ' + variables.jobPath + 'metadata.labels[{label}] to one of: ' + variables.queues.join(', ')"
    rules = [
        Rule(holds=f"{now} != '' || {unchanged}", message=f"'work needs a queue; ' + {fix}"),
        Rule(
            holds=f"{now} in variables.queues || {now} == '' || {unchanged}",
            message=f"'queue ' + {now} + ' does not belong to this namespace; ' + {fix}",
        ),
    ]
    if stack.scheduler is Scheduler.KAI:
        rules.append(
            Rule(
                holds=f"variables.templateLabels.all(each, !('{label}' in each) || each['{label}'] == {now})",
                message=f"'the pods name another queue than their job; remove label {label} from the "
                "pod templates and the labels of groups'",
            )
        )
    return tuple(rules)


def _priority(stack: Stack) -> tuple[Rule, ...]:
    choice = "'; use one of: ' + variables.priorities.join(', ')"
    new = "variables.named.filter(name, !(name in variables.priorities) && !(name in variables.namedBefore))"
    rules = [
        Rule(
            holds=f"{new}.size() == 0",
            message=f"'priority ' + {new}.join(', ') + ' is not available to this namespace' + {choice}",
        )
    ]
    if stack.scheduler is Scheduler.KUEUE:
        # Without the label, Kueue would take the value of the pods' own class: any of the cluster's.
        classes = "variables.templates{when}.map(each, each.?spec.?priorityClassName.orValue(''))"
        before = classes.format(when="Before")
        rules.append(
            Rule(
                holds=f"{classes.format(when='')}.all(name, name == '' || name in {before})",
                message="'pods take the priority of their job; remove priorityClassName from "
                "the pod "
                "templates and set ' + variables.jobPath + "
                f"'metadata.labels[{names.PRIORITY_LABEL}]' + {choice}",
            )
        )
    return tuple(rules)


def _admission(stack: Stack) -> tuple[Rule, ...]:
    """No tenant admits its own work: not by a prebuilt Workload or another gang's request."""
    return (
        *(_prebuilt(field) for field in ("label", "annotation")),
        *_parameters(stack.tenancy.parameters),
        Rule(
            holds=_new_keys("Annotations", _CONSUMING),
            message="'annotations that claim provisioned capacity are set when the gang is admitted; "
            f"remove those of {', '.join(_CONSUMING)} from the pod templates'",
        ),
        *(_starting() if stack.scheduler is Scheduler.KUEUE else _grouping()),
    )


def _prebuilt(field: str) -> Rule:
    """Kueue reads the annotation where a name is too long for a label."""
    now, before = f"variables.{field}s", f"variables.{field}sBefore"
    return Rule(
        holds=f"!('{PREBUILT_LABEL}' in {now}) || '{PREBUILT_LABEL}' in {before}",
        message=f"'{field} {PREBUILT_LABEL} is not for tenants: Kueue makes the Workload; remove the "
        f"{field}'",
    )


def _parameters(allowed: Sequence[str]) -> tuple[Rule, ...]:
    keys = quoted([f"{JOB_PARAMETER_PREFIX}{name}" for name in allowed])
    new = (
        f"variables.annotations.filter(key, key.startsWith('{JOB_PARAMETER_PREFIX}') && !(key in {keys}) && "
        "!(key in variables.annotationsBefore))"
    )
    listed = ", ".join(allowed) or "none"
    return (
        Rule(
            holds=f"variables.annotations.all(key, !key.startsWith('{JOB_PARAMETER_PREFIX}') || "
            f"key in {keys} || key in variables.annotationsBefore)",
            message=f"'a job may not set the provisioning parameter ' + {new}.join(', ') + '; remove it. "
            f"Allowed: {listed}'",
        ),
    )


def _new_keys(field: str, prefixes: Sequence[str]) -> str:
    """No template has a key of these prefixes with a value that none had before."""
    one = " || ".join(f"key.startsWith('{prefix}')" for prefix in prefixes)
    return (
        f"variables.template{field}.all(each, each.all(key, !({one}) || "
        f"variables.template{field}Before.exists(old, key in old && old[key] == each[key])))"
    )


def _starting() -> Iterator[Rule]:
    for path in dict.fromkeys(each.suspend for each in QUEUED):
        kinds = quoted([each.resource for each in QUEUED if each.suspend == path])
        now, before = (pod_templates.optional(of, path) for of in ("object", "variables.before"))
        yield Rule(
            holds=f"!(request.resource.resource in {kinds}) || !{before}.orValue(false) || "
            f"{now}.orValue(false) || {ADMINISTRATOR}",
            message=f"'queued work starts when its queue admits it; leave {path} as it is'",
        )


def _fields() -> Iterator[Rule]:
    """What a kind has beside its pods."""
    for barred in dict.fromkeys(each for work in WORK for each in work.barred):
        now, before = (pod_templates.optional(of, barred.path) for of in ("object", "variables.before"))
        yield Rule(holds=f"!{now}.hasValue() || {before}.hasValue()", message=f"'{barred.message}'")
    for path in (pods.template for work in WORK for pods in work.pods if pods.template.keys):
        keys = f"{pod_templates.optional('object', path.groups)}.orValue(dyn({{}}))"
        strange = f"{keys}.filter(key, !(key in {quoted(path.keys)}))"
        yield Rule(
            holds=f"{strange}.size() == 0",
            message=f"'{path.groups} has no ' + {strange}.join(', ') + '; write {' and '.join(path.keys)}'",
        )


def _together() -> Rule:
    """By default each pod is made when the one before it is ready."""
    kinds = quoted([each.resource for each in WORK if each.is_one_gang])
    return Rule(
        holds=f"!(request.resource.resource in {kinds}) || object.spec.?replicas.orValue(1) <= 1 || "
        "object.spec.?podManagementPolicy.orValue('') == 'Parallel' || request.operation == 'UPDATE'",
        message="'a queue starts all pods of a ' + object.kind + ' together; set "
        "spec.podManagementPolicy: Parallel'",
    )


def stopping() -> Rule:
    """Work that cannot be preempted could keep its GPUs without limit."""
    return Rule(holds=ray_submission.IN_CEL, message=f"'{ray_submission.MESSAGE}'")


def _grouping() -> tuple[Rule, ...]:
    return (
        Rule(
            holds=f"{_new_keys('Annotations', _GROUPING)} && {_new_keys('Labels', _GROUPING)}",
            message="'pods are grouped by KAI for the queue of their job; remove "
            f"{' and '.join(_GROUPING)} from the pod templates and the labels of groups'",
        ),
    )
