"""What a controller made belongs to that controller: who owns it, and what KubeRay keeps for its own objects.

Kueue (0.19.2, jobframework/reconciler.go) queues nothing that has a controller among its owners: it counts
the owner. Work that gets one while it runs can no longer be stopped, and work that loses its own is counted
for no team. KubeRay (1.6.2, rayjob_controller.go) ends a RayJob by the token in the Secret of its cluster:
with an empty one neither the job nor its pods end. It takes a Secret that exists for its own.
"""

from typing import Final

from muster.model.stack import Scheduler, Stack
from muster.model.work import WORK, by_group
from muster.render.tenancy.policies.pod_templates import BEFORE, JOB_PATH
from muster.render.tenancy.policies.policy import Kinds, Policy, Rule, kinds_of
from muster.render.tenancy.policies.scalers import IS_SCALER
from muster.render.tenancy.policies.who import ADMINISTRATOR, EVERYWHERE, SYSTEM, quoted

_ALL: Final = ("CREATE", "UPDATE", "DELETE")
_CHANGES: Final = ("UPDATE", "DELETE")
# How the cluster of a RayJob or RayService ends, and so its Secret. Source:
# https://github.com/ray-project/kuberay at v1.6.2, ray-operator/controllers/ray/utils/util.go
# (GenerateRayClusterName), and k8s.io/apimachinery, pkg/util/rand, read 2026-11-27
_DRAWN: Final = "-[bcdfghjklmnpqrstvwxz2456789]{5}$"
# A RayJob that a RayCronJob made is queued by itself, and its team ends it.
_MAKERS: Final = tuple(each.kind for each in WORK if each.is_queued and each.group != "batch")
_GROUPS: Final = tuple(group for group in by_group(WORK) if group != "batch")


def owners(stack: Stack) -> Policy:
    return Policy(
        name="muster-owners",
        purpose=(
            "Kueue counts the owner of what a controller made, and KubeRay needs what it made to end its "
            "work. Only that controller changes it."
        ),
        kinds=(
            # Kueue follows the owners of what a RayCronJob makes through it, to what it counts.
            *kinds_of(WORK, operations=_ALL),
            Kinds(group="", resources=("secrets",), operations=_ALL),
            Kinds(group="", resources=("services", "serviceaccounts"), operations=_CHANGES),
        ),
        unless=(("the-system", SYSTEM), ("an-administrator", ADMINISTRATOR)),
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
