"""Pod templates whose pods count, can start, keep to their team, and end when their work is deleted.

A queue gives quota and nodes to work before any of its pods exists. What the API server or a controller
would refuse or never start is refused here, when the work is submitted, by the same rules as its pods. An
object that was allowed once stays changeable: only what none of its templates had before is refused.
"""

from typing import Final

from muster.model import names
from muster.model.stack import Stack
from muster.model.work import WORK
from muster.render.tenancy.policies import amounts, claims, fabrics, placement, pod_templates
from muster.render.tenancy.policies.ending import ending_faults
from muster.render.tenancy.policies.pod_security import standard_faults, standard_of
from muster.render.tenancy.policies.policy import ADMINISTRATOR, EVERYWHERE, SYSTEM, Policy, Rule, quoted

# Which pods request GPUs or TPUs, and which work they may belong to.
# One rule for pods and for the pod templates of Jobs.

WAYS: Final = (
    f"resources of {', '.join(names.DEVICE_PREFIXES)}, resourceClaims, "
    f"annotations {', '.join(names.GPU_PARTS)}"
)


def asked(of: str) -> str:
    """Whether a pod or a template requests any of a vendor's resources, TPUs, a device claimed by name, or a
    part of a GPU as KAI counts it.
    """
    is_device = " || ".join(f"name.startsWith('{prefix}')" for prefix in names.DEVICE_PREFIXES)
    resources = (
        f"({of}.spec.containers + {of}.spec.?initContainers.orValue([])).exists(container, "
        "[container.?resources.?requests, container.?resources.?limits].exists(amounts, "
        f"amounts.hasValue() && amounts.value().exists(name, {is_device})))"
    )
    claim = f"{of}.spec.?resourceClaims.orValue([]).size() > 0"
    part = f"{of}.?metadata.?annotations.orValue({{}}).exists(key, key in {quoted(names.GPU_PARTS)})"
    return f"{resources} || {claim} || {part}"


def kinds(stack: Stack) -> str:
    """The kinds that a queue admits with GPUs. The gate is removed only from pods of Ray clusters."""
    if stack.is_gated:
        return "RayJob, RayCluster or RayService"
    return "RayJob, RayCluster, RayService or batch Job"


# The API server computes it from the class, and refuses a pod that names another one.
_PREEMPTING: Final = "PreemptLowerPriority"
_SUBMITTER: Final = "'spec.submitterPodTemplate, which is needed here'"
_SIDECAR: Final = "'the container of submissionMode SidecarMode, which has no securityContext: use HTTPMode'"


def templates(stack: Stack) -> Policy:
    return Policy(
        name="muster-templates",
        purpose=(
            "A queue gives quota and nodes to work before any of its pods exists, so a pod that could "
            "not start is refused with its work."
        ),
        kinds=pod_templates.makers_of_pods(stack),
        # What the system makes has the templates of an object that was checked.
        unless=(("the-system", SYSTEM),),
        words=_words(stack),
        rules=(
            _rule(
                "unsafe",
                "'no pod of this template would start: the namespace enforces the Pod Security Standard ' + "
                "variables.level",
            ),
            _rule(
                "stuck",
                "'pods of this template would not start in the order of their queue'",
                unless=ADMINISTRATOR,
            ),
            _rule("reaching", "'a pod of a team must not reach another team'", unless=ADMINISTRATOR),
            _rule("endless", "'deleted work must give its nodes back'", unless=ADMINISTRATOR),
            _rule("uncounted", "'a queue counts what a pod requests'", unless=ADMINISTRATOR),
            *((_held(),) if stack.placeholder_pools else ()),
            _managed(stack),
        ),
    )


def _words(stack: Stack) -> list[tuple[str, str]]:
    words = [
        pod_templates.JOB_PATH,
        ("clusterPath", pod_templates.CLUSTER_PATH),
        pod_templates.BEFORE,
        ("level", standard_of(stack)),
    ]
    for when, of in (("", "object"), ("Before", "variables.before")):
        words += pod_templates.words(when, of)
        pods = f"variables.pods{when}"
        words += [
            (f"pods{when}", _pods(when)),
            (f"unsafe{when}", pod_templates.faulty(pods, standard_faults("variables.level", stack))),
            (f"stuck{when}", pod_templates.faulty(pods, f"[{_stuck(stack)}]")),
            (f"reaching{when}", pod_templates.faulty(pods, f"[{fabrics.faults()}]")),
            (f"endless{when}", pod_templates.faulty(pods, f"[{ending_faults(stack)}]")),
            (f"uncounted{when}", pod_templates.faulty(pods, amounts.faults())),
            (f"managers{when}", _managers(when, of)),
        ]
        if stack.placeholder_pools:
            words.append((f"held{when}", pod_templates.faulty(pods, f"[{placement.HELD}]")))
    held = ("held",) if stack.placeholder_pools else ()
    judged = ("unsafe", "stuck", "reaching", "endless", "uncounted", *held)
    return [
        *words,
        *(
            (f"{word}Now", pod_templates.new_faults(f"variables.{word}", f"variables.{word}Before"))
            for word in judged
        ),
    ]


def _pods(when: str) -> str:
    """The templates that are written, and the containers that KubeRay adds without a security context."""
    job, cluster = f"variables.job{when}.?spec", f"variables.cluster{when}"
    written = f"variables.parts{when}.map(part, {pod_templates.pod_of('part.path', 'part.template')})"
    head = f"{cluster}.?headGroupSpec.?template.?spec.?securityContext.orValue(dyn({{}}))"
    autoscaler = _made(
        "variables.clusterPath + '.autoscalerOptions'",
        head,
        f"{cluster}.?autoscalerOptions.orValue(dyn({{}}))",
    )
    submitter = "dyn({'name': 'ray-job-submitter'})"
    mode = f"{job}.?submissionMode.orValue('K8sJobMode')"
    is_ray_job = "request.resource.resource in ['rayjobs', 'raycronjobs']"
    if when:  # What did not exist had no submitter.
        is_ray_job += " && oldObject != null"
    by_job = f"{is_ray_job} && {mode} in ['', 'K8sJobMode'] && !{job}.?submitterPodTemplate.hasValue()"
    beside = f"{is_ray_job} && {mode} == 'SidecarMode'"
    return " + ".join(
        (
            written,
            f"({cluster}.?enableInTreeAutoscaling.orValue(false) ? [{autoscaler}] : [])",
            f"({by_job} ? [{_made(_SUBMITTER, 'dyn({})', submitter)}] : [])",
            f"({beside} ? [{_made(_SIDECAR, head, submitter)}] : [])",
        )
    )


def _made(path: str, context: str, container: str) -> str:
    """A pod with one container of KubeRay's, in the shape of `pod_templates.pod_of`."""
    return (
        f"{{'path': dyn({path}), 'spec': dyn({{'securityContext': dyn({context})}}), "
        f"'containers': dyn([{container}]), 'notes': dyn({{}}), 'finalizers': dyn([])}}"
    )


def _rule(word: str, reason: str, *, unless: str = "false") -> Rule:
    """Names what an author has to change in each template with a new fault."""
    new = f"variables.{word}Now"
    return Rule(
        holds=f"{new}.size() == 0 || {unless}",
        message=f"{reason} + '. ' + {pod_templates.joined_faults(new)}",
    )


def _held() -> Rule:
    """Kueue writes it when a gang starts, and KubeRay copies it: on a cluster that had them, from accounts
    that are not `SYSTEM`.
    """
    reason = "'nodes kept for a gang are for its own pods'"
    return _rule("held", reason, unless=f"{ADMINISTRATOR} || {EVERYWHERE}")


def _stuck(stack: Stack) -> str:
    """What keeps the pods of `pod` from a start in the turn of their queue."""
    return " + ".join(
        (
            placement.faults(stack),
            claims.faults(stack),
            "(pod.spec.?priority.orValue(0) == 0 ? [] : "
            "['remove priority, and name a priority in the labels of the job'])",
            f"(pod.spec.?preemptionPolicy.orValue('{_PREEMPTING}') == '{_PREEMPTING}' ? [] : "
            "['remove preemptionPolicy'])",
            f"pod.spec.?schedulingGates.orValue([]).filter(gate, !{placement.OF_A_QUEUE})"
            ".map(gate, 'remove scheduling gate ' + gate.name)",
        )
    )


def _managers(when: str, of: str) -> str:
    paths = pod_templates.values_at((path for work in WORK for path in work.managers), when, of)
    return f"{paths} + variables.cluster{when}.?managedBy.optMap(each, [each]).orValue([])"


def _managed(stack: Stack) -> Rule:
    """No controller of the cluster makes pods of work that names another one."""
    away = any(check.controller_name == names.MULTI_KUEUE for check in stack.kueue.admission_checks)
    ours = (each.manager for each in WORK if each.manager)
    known = (*ours, *((names.MULTI_KUEUE,) if away else ()))
    new = (
        f"variables.managers.filter(each, !(each in {quoted(known)}) && !(each in variables.managersBefore))"
    )
    return Rule(
        holds=f"{new}.size() == 0 || {ADMINISTRATOR}",
        message=f"'no controller in this cluster starts work managed by ' + {new}.join(', ') + '; "
        "remove managedBy'",
    )
