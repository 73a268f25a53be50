"""Limits our own controller to the writes that it needs.

An account that may write the status of Workloads could admit anything. With these policies our accounts
change no other check, nothing else of the status, nothing of a Workload's spec but `active`, and only
requests, templates and placeholder pods with our names, and pods of elastic gangs that Kueue has not started.
"""

from typing import Final

from muster.model import names
from muster.render.tenancy.policies.policy import Kinds, Policy, Rule
from muster.render.tenancy.policies.who import OURS

# The same PodSets, each as it was but for its affinity.
_STEERED: Final = (
    "object.spec.podSets.size() == oldObject.spec.podSets.size() && "
    "object.spec.podSets.all(new, oldObject.spec.podSets.exists(old, "
    "new.all(field, field == 'template' || (field in old && old[field] == new[field])) && "
    "new.template.all(field, field == 'spec' || "
    "(field in old.template && old.template[field] == new.template[field])) && "
    "new.template.spec.all(field, field == 'affinity' || "
    "(field in old.template.spec && old.template.spec[field] == new.template.spec[field]))))"
)
# Kueue's gate has the name of the annotation that makes a job elastic (ElasticJobSchedulingGate of 0.19.2).
_NEVER_STARTED: Final = (
    "request.resource.resource == 'pods' && request.operation == 'DELETE' && "
    f"oldObject.spec.?schedulingGates.orValue([]).exists(gate, gate.name == '{names.ELASTIC_JOB}')"
)
_STATUS: Final = "request.?subResource.orValue('') == 'status'"


def controller(*, holds: bool = False, steers: bool = False, has_slices: bool = False) -> Policy:
    """`holds`: the controller may create placeholder pods, limited by their names. `steers`: it may change
    the affinity of a Workload's PodSets, by which Kueue chooses flavors. `has_slices`: it may delete a pod
    of an elastic gang's slice that can never start.
    """
    return Policy(
        name="muster-controller",
        kinds=(
            Kinds(
                group="kueue.x-k8s.io", resources=("workloads", "workloads/status"), operations=("UPDATE",)
            ),
            Kinds(
                group="autoscaling.x-k8s.io",
                resources=("provisioningrequests",),
                operations=("CREATE", "UPDATE", "DELETE"),
            ),
            Kinds(group="", resources=("podtemplates",), operations=("CREATE", "UPDATE", "DELETE")),
            *([Kinds(group="", resources=("pods",), operations=("CREATE",))] if holds else []),
            *([Kinds(group="", resources=("pods",), operations=("DELETE",))] if holds or has_slices else []),
        ),
        unless=(("another", f"!({OURS})"),),
        everywhere=True,
        words=(
            ("status", "object.?status.orValue(dyn({}))"),
            ("statusBefore", "oldObject.?status.orValue(dyn({}))"),
        ),
        rules=(_checks(), _rest(), _spec(steers=steers), _names()),
    )


def _checks() -> Rule:
    others = (
        "variables.{of}.?admissionChecks.orValue([]).filter(check, check.name != '"
        + names.ADMISSION_CHECK
        + "')"
    )
    return Rule(
        holds=f"request.resource.resource != 'workloads' || {others.format(of='status')} == "
        f"{others.format(of='statusBefore')}",
        message=f"'this account answers for admission check {names.ADMISSION_CHECK} alone; leave the others'",
    )


def _rest() -> Rule:
    same = (
        "variables.{a}.all(key, key == 'admissionChecks' || "
        "(key in variables.{b} && variables.{a}[key] == variables.{b}[key]))"
    )
    return Rule(
        holds=f"request.resource.resource != 'workloads' || ({same.format(a='status', b='statusBefore')} && "
        f"{same.format(a='statusBefore', b='status')})",
        message="'this account writes status.admissionChecks of a Workload and nothing else of its status'",
    )


def _spec(*, steers: bool) -> Rule:
    also = " and the affinity of its podSets" if steers else ""
    mine = "key == 'active'" + (f" || (key == 'podSets' && {_STEERED})" if steers else "")
    same = "{a}.spec.all(key, " + mine + " || (key in {b}.spec && {a}.spec[key] == {b}.spec[key]))"
    return Rule(
        holds=f"request.resource.resource != 'workloads' || {_STATUS} || "
        f"({same.format(a='object', b='oldObject')} && {same.format(a='oldObject', b='object')})",
        message=f"'this account writes spec.active of a Workload{also} and nothing else of its spec'",
    )


def _names() -> Rule:
    return Rule(
        holds=f"request.resource.resource == 'workloads' || request.name.startsWith('{names.OWN_PREFIX}') || "
        f"({_NEVER_STARTED})",
        message="'this account writes requests, templates and pods of its own, whose names begin with "
        f"{names.OWN_PREFIX}, and deletes pods of elastic gangs that were never let start'",
    )
