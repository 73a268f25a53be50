"""Limits our own accounts to the writes that they make, in every mode of tenancy.

RBAC cannot look into an object: who may patch pods may change their images, and who may create a Secret may
create one that holds the token of another account. With these policies a stolen token of ours is worth little
more than the controller's work.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from muster.model import names
from muster.model.gangpolicy import IdleAction, IdlePolicy, WhileRunning
from muster.model.stack import Stack
from muster.render import gang
from muster.render.tenancy.policies.pods import requests_gpus
from muster.render.tenancy.policies.policy import Policy, kinds_of, policy

_STAMPED: Final = ("schedulingGates", "nodeSelector", "tolerations")
_PLACEHOLDERS: Final = (
    "pods that keep nodes for a Workload of a team (one container, no volumes, no token, nothing of the node)"
)


def fences(stack: Stack) -> tuple[Policy, ...]:
    """Those for the rights that a stack gives its controller (components/gang_pods.py)."""
    admits_jobs = stack.scheduler.traits.admits_jobs
    ray_clusters = _ray_clusters(stack) if admits_jobs else _gangs(stack)
    return (
        *((_workloads(stack),) if admits_jobs else ()),
        ray_clusters,
        *((policy("muster-controller-nodes"),) if stack.placeholder_pools or stack.closes_nodes else ()),
        policy("muster-controller-requests"),
        _pods(stack),
        policy("muster-controller-reports"),
        policy("muster-controller-keys"),
        *((policy(names.RECORDER),) if stack.recording.forecasts else ()),
    )


def _workloads(stack: Stack) -> Policy:
    has_placeholders, steers = bool(stack.placeholder_pools), gang.steers(stack)
    forecasts = stack.recording.forecasts
    # On nodes that another gang has left, no request is consumed.
    takes = any(pool.provisioning_class == names.GKE_QUEUED_CLASS for pool in stack.queued_pools)
    annotations = (
        *names.CLAIM_ANNOTATIONS,
        *((names.PLACED_ANNOTATION,) if has_placeholders or takes else ()),
        *(names.UNDISTURBED if has_placeholders else ()),
    )
    idle = gang.gang_policy(stack).idle
    held = f".all(each, each.?key.orValue('') == '{names.HELD_TAINT_KEY}')"
    return policy(
        "muster-controller",
        values={
            "recorderOfForecasts": "${recorder}" if forecasts else "false",
            "isSteering": "key == 'podSets' && ${isSteered}" if steers else "false",
            "steeringWords": " and the affinity of its podSets" if steers else "",
            "areOurTolerations": held if has_placeholders else ".size() == 0",
            "tolerationsWords": f", tolerations of {names.HELD_TAINT_KEY}" if has_placeholders else "",
            "annotations": annotations,
            "annotationNames": ", ".join(annotations),
            "butForecasts": f" && key != '{names.FORECAST_ANNOTATION}'" if forecasts else "",
            "butNotices": " && !(key in ${notices})" if idle else "",
            "orIdle": " || (${isIdle})" if idle else "",
            "idleWords": "; of others that they are idle, and stops them for it" if idle else "",
            **(_idle(idle) if idle else {}),
        },
    )


def _idle(rules: Mapping[str, IdlePolicy]) -> Mapping[str, Sequence[str]]:
    """Of Workloads without our check, by their ClusterQueue."""
    return {
        "notices": (names.IDLE_SINCE_ANNOTATION, names.IDLE_ENDS_ANNOTATION),
        "idleQueues": tuple(rules),
        "suspendingQueues": tuple(
            queue for queue, rule in rules.items() if rule.action is IdleAction.SUSPEND
        ),
    }


def _ray_clusters(stack: Stack) -> Policy:
    flavors = gang.gang_policy(stack).flavors
    return policy(
        "muster-controller-ray-clusters",
        values={
            "claims": ", ".join(names.CLAIM_ANNOTATIONS),
            "pins": sorted({each.key for flavor in flavors for each in flavor.node_selector_from_details}),
        },
    )


def _gangs(stack: Stack) -> Policy:
    work = kinds_of(stack.gated_work, operations=("UPDATE",))
    return policy("muster-controller-ray-clusters-kai", kinds={"gatedWork": work})


def _pods(stack: Stack) -> Policy:
    admits_jobs, has_placeholders = stack.scheduler.traits.admits_jobs, bool(stack.placeholder_pools)
    # With KAI a gang that takes the room of others is bounded to their nodes. Of the affinity of a gated pod
    # the API server lets only the demands on nodes be changed, and these only be narrowed.
    stamped = _STAMPED if admits_jobs else (*_STAMPED, "affinity")
    # Gated pods get what placeholders have brought. With Kueue the templates of jobs do.
    hands_over = has_placeholders and not admits_jobs
    set_words = f", and of {names.HELD_TAINT_KEY} for the set in {names.PLACED_ANNOTATION}"
    undisturbed = names.UNDISTURBED if hands_over else ()
    creates = gang.makes_pods(stack) or admits_jobs
    return policy(
        "muster-controller-pods",
        values={
            "stamped": stamped,
            "stampedAnnotations": (names.CONSUME_ANNOTATION, names.CLASS_ANNOTATION, *undisturbed),
            "affinityWords": "" if admits_jobs else "node affinity, ",
            "isHandedOver": "${isOfItsSet}" if hands_over else "false",
            "setWords": set_words if hands_over else "",
            **_deleted(stack),
            **(_created(stack) if creates else {}),
        },
        given={"createsPods": creates},
    )


def _deleted(stack: Stack) -> Mapping[str, str]:
    """Which pods may be deleted: of our own, and of teams."""
    if not stack.scheduler.traits.admits_jobs:
        own, of_teams = "false", "${isUnbound} && ${isOfGang}"
        words = "pods of gangs that no node has yet"
        if stack.gang_admission.policy.broken_nodes.running is WhileRunning.REQUEUE:
            of_teams, words = f"(${{isOfRayCluster}} || {of_teams})", f"pods of Ray clusters, and {words}"
        if stack.placeholder_pools:
            own, words = "${broughtItsNode}", f"its placeholders, and {words}"
    else:
        own = "${wasPlaceholder} || ${broughtItsNode}"
        of_teams = "${isUnbound} && ${isOfRayCluster} && ${neverStarted}"
        words = "its placeholders, and pods of elastic gangs that were never let start"
    found = {"mayDelete": own, "mayDeleteOfTeams": of_teams, "deletedWords": words}
    if not stack.deletes_without_quota:
        return found
    return {
        **found,
        "mayDeleteOfTeams": f"({of_teams} || ${{isWithoutQuota}})",
        "deletedWords": f"{words}, and pods with devices on nodes",
        "asksForGpus": requests_gpus("oldObject"),
    }


def _created(stack: Stack) -> Mapping[str, str]:
    """Which pods may be created: those that keep nodes, those that bring them, and of a team's gang for
    Kueue any that is not kept.
    """
    tries = stack.scheduler.traits.admits_jobs
    words = (
        *(("any pod of a team in a dry run alone",) if tries else ()),
        *((_PLACEHOLDERS,) if gang.makes_pods(stack) else ()),
    )
    return {
        "mayTry": "${isTried}" if tries else "false",
        "createdWords": ", and ".join(words),
        "mayHold": "(variables.isOfTeam && ${isPlaceholder})" if gang.holds(stack) else "false",
        "mayBring": "${bringsItsNode}" if stack.placeholder_pools else "false",
    }
