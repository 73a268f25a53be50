"""Protects the objects that decide over admission from tenants.

Responsible for the objects of a team's namespace that only controllers and administrators may write, even if
a user has the cluster's `edit` role, and for the labels and annotations of a team's Namespace.
"""

from typing import Final

from muster.model import names
from muster.model.stack import Scheduler, Stack
from muster.model.work import WORK, by_group
from muster.render.tenancy.policies.pod_templates import BEFORE, JOB_PATH
from muster.render.tenancy.policies.policy import (
    ADMINISTRATOR,
    EVERYWHERE,
    KUBELETS,
    SYSTEM,
    TRUSTED,
    Kinds,
    Policy,
    Rule,
    kinds_of,
    quoted,
)
from muster.render.tenancy.policies.scalers import IS_SCALER

# What a controller made belongs to that controller: who owns it, and what KubeRay keeps for its own
# objects.
# Kueue (0.19.2, jobframework/reconciler.go) queues nothing that has a controller among its owners: it counts
# the owner. Work that gets one while it runs can no longer be stopped, and work that loses its own is counted
# for no team. KubeRay (1.6.2, rayjob_controller.go) ends a RayJob by the token in the Secret of its cluster:
# with an empty one neither the job nor its pods end. It takes a Secret that exists for its own.

_ALL: Final = ("CREATE", "UPDATE", "DELETE")
_CHANGES: Final = ("UPDATE", "DELETE")
# How the cluster of a RayJob or RayService ends, and so its Secret. Source:
# https://github.com/ray-project/kuberay at v1.6.2, ray-operator/controllers/ray/utils/util.go
# (GenerateRayClusterName), and k8s.io/apimachinery, pkg/util/rand, read 2026-11-27
_DRAWN: Final = "-[bcdfghjklmnpqrstvwxz2456789]{5}$"
# A RayJob that a RayCronJob made is queued by itself, and its team ends it.
_MAKERS: Final = tuple(each.kind for each in WORK if each.is_queued and each.group != "batch")
_GROUPS: Final = tuple(group for group in by_group(WORK) if group != "batch")


_WITHOUT_OWNERS: Final = (
    "request.operation == 'CREATE' && request.resource.resource != 'secrets' && "
    "!object.metadata.?ownerReferences.hasValue() && "
    "!dyn(object).?spec.?jobTemplate.?metadata.?ownerReferences.hasValue()"
)


def owners(stack: Stack) -> Policy:
    return Policy(
        name="muster-owners",
        purpose=(
            "Kueue counts the owner of what a controller made, and KubeRay needs what it made to end its "
            "work. Only that controller changes it."
        ),
        kinds=(
            # Kueue follows the owners of what a RayCronJob makes through it, to what it counts.
            *kinds_of(stack.judged_work, operations=_ALL),
            Kinds(group="", resources=("secrets",), operations=_ALL),
            Kinds(group="", resources=("services", "serviceaccounts"), operations=_CHANGES),
        ),
        unless=(
            ("a-new-object-without-owners", _WITHOUT_OWNERS),
            ("the-system", SYSTEM),
            ("an-administrator", ADMINISTRATOR),
        ),
        words=(
            JOB_PATH,
            BEFORE,
            (
                "makers",
                "variables.before.metadata.?ownerReferences.orValue([]).filter(owner, "
                "owner.?controller.orValue(false) && "
                f"owner.apiVersion.split('/')[0] in {quoted(_GROUPS)} && "
                f"owner.kind in {quoted(_MAKERS)})",
            ),
        ),
        rules=(
            _keeps("", at="'metadata"),
            # The Jobs of a CronJob; for other kinds this is the object again.
            _keeps(".?spec.?jobTemplate", at="variables.jobPath + 'metadata"),
            _made(stack),
            _name(),
        ),
    )


def _keeps(path: str, *, at: str) -> Rule:
    """References to a controller, and all those beside one, stay as they are."""
    references = f"{{of}}{path}.?metadata.?ownerReferences.orValue([])"
    now, before = references.format(of="dyn(object)"), references.format(of="variables.before")
    return Rule(
        holds=f"request.resource.group == '' || request.operation == 'DELETE' || {now} == {before} || "
        f"!({now} + {before}).exists(owner, owner.?controller.orValue(false))",
        message="'an object with a controller as its owner is not queued on its own; remove ' + "
        f"{at}.ownerReferences with controller: true that you added, and leave what its controller wrote'",
    )


def _made(stack: Stack) -> Rule:
    """With KAI an autoscaler changes the numbers of a RayJob's cluster too, whose pods are counted one by one
    (scalers.py). With Kueue only the owner is counted.
    """
    scaled = f" || {IS_SCALER}" if stack.scheduler is Scheduler.KAI else ""
    return Rule(
        holds=f"variables.makers.size() == 0 || {EVERYWHERE}{scaled}",
        message="request.kind.kind + ' ' + variables.before.metadata.name + ' was created for ' + "
        "variables.makers[0].kind + ' ' + variables.makers[0].name + ', and only its controller changes or "
        "deletes it; change or delete ' + variables.makers[0].kind + ' ' + variables.makers[0].name",
    )


def _name() -> Rule:
    """A member sees the name of a RayJob's cluster before KubeRay has made its Secret."""
    return Rule(
        holds="request.resource.resource != 'secrets' || request.operation != 'CREATE' || "
        f"!object.metadata.name.matches('{_DRAWN}') || {EVERYWHERE}",
        message="'Secret ' + object.metadata.name + ' could be taken for the token of a Ray cluster; choose "
        "a metadata.name, without generateName, that does not end with a hyphen and five of "
        "bcdfghjklmnpqrstvwxz2456789'",
    )


_WRITES: Final = ("CREATE", "UPDATE", "DELETE")
_REPORTED: Final = "controllers write the status; change or delete the object itself"
_COUNTED: Final = "controllers write the status, and a queue counted its pods; create one of another size"
_SELECTED: Final = "set spec.selector of the Service, and the cluster finds its pods"
_INSTEAD: Final = {
    "workloads": "change or delete the job itself, and Kueue changes its Workload",
    "localqueues": "use the queue of this namespace; queues are made from the stack of the platform team",
    "provisioningrequests": "submit the job with a queue, and its capacity is requested",
    "podtemplates": "write the pod template into the job",
    "computedomains": "claim the template that is named after the job, and its domain is made",
    "podgroups": "submit the job with a queue, and KAI groups its pods",
    "bindrequests": "submit the job with a queue, and KAI binds its pods",
    "endpoints": _SELECTED,
    "endpointslices": _SELECTED,
    "services": "controllers of the cluster write the status; change spec of the Service",
    **{each.resource: _COUNTED if each.is_one_gang else _REPORTED for each in WORK},
    "pods": "their controllers, the scheduler and the nodes write them; change the job, whose queue counts "
    "it anew, and remove annotation ray.io/ippr from a Ray cluster",
    "bindings": "the scheduler binds pods; submit a job with a queue",
}
_OTHERWISE: Final = "ask the platform team to change the stack"


def protected(stack: Stack) -> Policy:
    return Policy(
        name="muster-protected",
        purpose=(
            "Workloads, queues, requests, quotas, networks and statuses determine admission: "
            "controllers and administrators write them."
        ),
        kinds=(
            Kinds(group="kueue.x-k8s.io", resources=("workloads", "workloads/*"), operations=_WRITES),
            Kinds(group="kueue.x-k8s.io", resources=("localqueues", "localqueues/*"), operations=_WRITES),
            Kinds(
                group="autoscaling.x-k8s.io",
                resources=("provisioningrequests", "provisioningrequests/*"),
                operations=_WRITES,
            ),
            Kinds(
                group="scheduling.run.ai",
                resources=("podgroups", "podgroups/*", "bindrequests", "bindrequests/*"),
                operations=_WRITES,
            ),
            Kinds(group="", resources=("podtemplates", "resourcequotas", "limitranges"), operations=_WRITES),
            Kinds(
                group="resource.nvidia.com",
                resources=("computedomains", "computedomains/*"),
                operations=_WRITES,
            ),
            Kinds(group="networking.k8s.io", resources=("networkpolicies",), operations=_WRITES),
            # What a Service leads to, and the addresses of its load balancer.
            Kinds(group="", resources=("endpoints", "services/status"), operations=_WRITES),
            Kinds(group="discovery.k8s.io", resources=("endpointslices",), operations=_WRITES),
            # Kueue, KubeRay and the job controller believe what a status reports: a job that says it has
            # ended gives its quota back, and its pods go on.
            *kinds_of(stack.judged_work, operations=_WRITES, part="/status"),
            # Kueue's webhook does not see it.
            *kinds_of(
                (each for each in stack.judged_work if each.is_one_gang), operations=_WRITES, part="/scale"
            ),
            # A pod that binds itself passes the scheduler, and one that is resized outgrows its quota.
            Kinds(
                group="",
                resources=("pods/status", "pods/resize", "pods/binding", "bindings"),
                operations=_WRITES,
            ),
        ),
        unless=(*TRUSTED, KUBELETS),
        rules=(Rule(holds="false", message=_message()),),
    )


def _message() -> str:
    fix = f"'{_OTHERWISE}'"
    for resource, instead in reversed(_INSTEAD.items()):
        fix = f"request.resource.resource == '{resource}' ? '{instead}' : {fix}"
    part = "request.?subResource.orValue('')"
    which = f"request.resource.resource + ({part} == '' ? '' : '/' + {part})"
    return f"{which} + ' are not written by hand here; ' + ({fix})"


def namespaces() -> Policy:
    """The Namespaces themselves: none is selected by its labels, which are what is guarded."""
    team = f"'{names.TEAM_LABEL}' in {{of}}.metadata.?labels.orValue({{{{}}}})"
    ours = " && ".join(
        f"object.metadata.?annotations[?'{key}'] == oldObject.metadata.?annotations[?'{key}']"
        for key in (names.QUEUES_ANNOTATION, names.PRIORITIES_ANNOTATION)
    )
    now, before = team.format(of="object"), team.format(of="oldObject")
    same = f"object.metadata.?labels == oldObject.metadata.?labels && {ours}"
    return Policy(
        name="muster-namespaces",
        purpose=(
            "The policies read a team's queues and priorities from its Namespace, so a tenant does not "
            "write there."
        ),
        kinds=(Kinds(group="", resources=("namespaces",), operations=_WRITES),),
        unless=(("the-system", SYSTEM), ("an-administrator", ADMINISTRATOR)),
        everywhere=True,
        rules=(
            Rule(
                holds=f"request.operation == 'DELETE' ? !({before}) : request.operation == 'CREATE' ? "
                f"!({now}) : "
                f"!({now} || {before}) || ({same})",
                message="'labels and annotations of the namespace of a team determine its queues; ask the "
                "platform team to "
                "change the stack'",
            ),
        ),
    )
