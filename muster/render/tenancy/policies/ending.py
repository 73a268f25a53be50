"""Work that is deleted ends, and gives back its nodes when it gives back its quota.

Kueue takes the quota of a job back when the job is deleted. Its pods would keep their nodes for as long as a
finalizer, a long grace period, or the loss of their owner keeps them. Responsible for all three, in what
tenants write and in how they delete. Controllers set finalizers of their own, and removing one is never
refused.
"""

from typing import Final

from muster.model.stack import Stack
from muster.model.work import QUEUED
from muster.render.tenancy.policies.policy import TRUSTED, Kinds, Policy, Rule, kinds_of, quoted

# Each of their pods would run on outside of any queue. What a CronJob has made is queued by itself.
_OWNERS: Final = tuple(each.resource for each in QUEUED)
_ALL_WRITES: Final = ("CREATE", "UPDATE", "DELETE")
_WITHOUT_FINALIZERS: Final = (
    "request.operation != 'DELETE' && request.?subResource.orValue('') == '' && "
    "!object.metadata.?finalizers.hasValue() && !object.?spec.?jobTemplate.?metadata.?finalizers.hasValue()"
)


def ending(stack: Stack) -> Policy:
    return Policy(
        name="muster-ending",
        purpose=(
            "Kueue takes back the quota of a job when the job is deleted. Its pods must give back their"
            " nodes with it."
        ),
        kinds=(
            *kinds_of(stack.judged_work, operations=_ALL_WRITES),
            Kinds(group="", resources=("pods",), operations=_ALL_WRITES),
            # A finalizer on one of them keeps the namespace of a team that is removed.
            Kinds(group="", resources=("configmaps", "secrets")),
            Kinds(group="", resources=("pods/eviction",), operations=("CREATE",)),
        ),
        unless=(("an-object-without-finalizers", _WITHOUT_FINALIZERS), *TRUSTED),
        words=(
            *_finalizer_words("", "object"),
            *_finalizer_words("Before", "oldObject"),
            (
                "options",
                "request.?subResource.orValue('') == 'eviction' ? object.?deleteOptions.orValue(dyn({})) : "
                "request.operation == 'DELETE' ? request.?options.orValue(dyn({})) : dyn({})",
            ),
        ),
        rules=(*_finalizers(), _orphans(), _deletion(stack)),
    )


def _finalizer_words(when: str, of: str) -> tuple[tuple[str, str], ...]:
    """Of the object, and of the Jobs that a CronJob is to make."""
    job = f"{of}.spec.?jobTemplate.?metadata.?finalizers.orValue([])"
    return (
        (f"finalizers{when}", f"{of} == null ? [] : {of}.metadata.?finalizers.orValue([])"),
        (
            f"jobFinalizers{when}",
            f"{of} == null || request.resource.resource != 'cronjobs' ? [] : {job}",
        ),
    )


def _finalizers() -> tuple[Rule, ...]:
    return (
        _no_new("finalizers", at="metadata.finalizers"),
        _no_new("jobFinalizers", at="spec.jobTemplate.metadata.finalizers"),
    )


def _no_new(word: str, *, at: str) -> Rule:
    new = f"variables.{word}.filter(each, !(each in variables.{word}Before))"
    return Rule(
        holds=f"{new}.size() == 0",
        message="'a finalizer would keep ' + object.kind + ' ' + object.metadata.name + ', and what it "
        f"holds, after its deletion; remove ' + {new}.join(', ') + ' from {at}'",
    )


def _orphans() -> Rule:
    orphans = (
        "variables.options.?propagationPolicy.orValue('') == 'Orphan' || "
        "variables.options.?orphanDependents.orValue(false)"
    )
    return Rule(
        holds=f"!(request.resource.resource in {quoted(_OWNERS)}) || !({orphans})",
        message="'pods without their owner would keep running outside every queue; delete ' + "
        "request.resource.resource + ' without --cascade=orphan'",
    )


def _deletion(stack: Stack) -> Rule:
    most = stack.tenancy.termination_grace
    return Rule(
        holds="request.resource.resource != 'pods' || "
        f"variables.options.?gracePeriodSeconds.orValue(0) <= {most}",
        message=f"'a deleted pod must give its node back within {most} seconds; delete it with "
        f"--grace-period={most} or less, or without the option'",
    )
