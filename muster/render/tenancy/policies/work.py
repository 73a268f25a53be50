"""Work and what it leaves: its queue and admission, the size of Ray clusters, what never runs, and reserved
keys; then what a team stores and owns, how its work ends, and who writes what.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from muster.model import names
from muster.model.names import JOB_PARAMETER_PREFIX
from muster.model.stack import Stack
from muster.model.tenancy import MOST_KIBIBYTES, TenancyMode
from muster.model.work import BROUGHT, BY_KIND, COUNTED, GROUPED, QUEUED, RAY, WORK, by_group
from muster.render.tenancy.policies import pods
from muster.render.tenancy.policies.policy import (
    Policy,
    Value,
    is_suspended,
    kinds_of,
    makers_of_pods,
    optional,
    policy,
    quoted,
    shared,
    too_many,
)
from muster.render.tenancy.team import most_objects


def work(stack: Stack) -> Policy:
    parameters = stack.tenancy.parameters
    return policy(
        "muster-work",
        kinds={"workOfMembers": kinds_of(each for each in stack.judged_work if each.is_for_members)},
        values={
            "parameters": [f"{JOB_PARAMETER_PREFIX}{name}" for name in parameters],
            "parameterNames": ", ".join(parameters) or "none",
            "oneGang": [each.resource for each in WORK if each.is_one_gang],
            "counted": ["cpu", "memory", *sorted({pool.device for pool in stack.pools if pool.is_gpu})],
            **(_gated() if stack.is_gated else {"isNoEntryOfScheduler": "${isNoEntryOfKueue}"}),
        },
        given={"gated": stack.is_gated},
        lists={"fieldsOfKinds": [*_fields()], "suspensions": [*_suspensions()]},
        scheduler=stack.scheduler,
    )


def reviews(stack: Stack) -> Policy:
    """In force in every mode of tenancy. Where the others are enforced it leaves out what they refuse."""
    is_enforced = stack.tenancy.mode is TenancyMode.ENFORCE
    ends_elsewhere = is_enforced and stack.scheduler.traits.admits_jobs
    return policy(
        "muster-reviews",
        kinds={
            "workOfMembers": kinds_of(
                RAY if is_enforced else (each for each in stack.judged_work if each.is_for_members)
            )
        },
        values={
            "endFaultsHere": "[]" if ends_elsewhere else "${endFaults}",
            "labelFaultsHere": "[]" if is_enforced else "${labelFaults}",
        },
        given={"notEnforced": not is_enforced},
        scheduler=stack.scheduler,
    )


def ray_size(stack: Stack) -> Policy:
    return policy("muster-ray-size", kinds={"rayWork": kinds_of(RAY)}, scheduler=stack.scheduler)


def ray_services(stack: Stack) -> Policy:
    return policy(
        "muster-ray-services",
        kinds={"rayKinds": kinds_of(each for each in WORK if each.is_ray)},
        values={"specOfObject": shared("raySpec", {"of": "object"})},
        scheduler=stack.scheduler,
    )


def growth(stack: Stack) -> Policy:
    kept = [
        *((each, each.pods[0].template.groups) for each in GROUPED),
        *((each, path) for each in WORK for path in each.kept),
    ]
    return policy(
        "muster-growth",
        kinds={
            "queuedWork": kinds_of(
                (each for each in stack.judged_work if each.is_queued), operations=("UPDATE",)
            )
        },
        values={
            "wasSuspended": is_suspended("oldObject"),
            "oneGang": [each.resource for each in WORK if each.is_one_gang],
            "resizable": [
                *("jobs", *dict.fromkeys(each.resource for each, _ in kept)),
                *(each.resource for each in WORK if each.is_pod_by_pod),
            ],
        },
        lists={
            "keptOfWork": [
                {
                    "include": "keptAsCounted",
                    "kind": each.kind,
                    "resource": each.resource,
                    "path": path,
                    "now": optional("object", path),
                    "before": optional("oldObject", path),
                }
                for each, path in kept
            ]
        },
    )


def kai_waiting(stack: Stack) -> Policy:
    suspends = dict.fromkeys(optional("object", each.suspend) for each in QUEUED)
    return policy(
        "muster-kai-waiting",
        kinds={"gatedWork": kinds_of(stack.gated_work, operations=("CREATE",))},
        values={"suspends": ", ".join(suspends)},
    )


def _gated() -> Mapping[str, Value]:
    return {
        "asksForGpus": pods.requests_gpus("each"),
        "isNoEntryOfScheduler": "${isNoEntryOfMuster}",
        "handedDown": names.HANDED_DOWN,
    }


def _suspensions() -> Iterator[Mapping[str, str]]:
    for path in dict.fromkeys(each.suspend for each in QUEUED):
        yield {
            "include": "suspended",
            "resources": quoted([each.resource for each in QUEUED if each.suspend == path]),
            "path": path,
            **_states(path),
        }


def _fields() -> Iterator[Mapping[str, str]]:
    """What a kind has beside its pods."""
    for barred in dict.fromkeys(each for kind in WORK for each in kind.barred):
        yield {"include": "barred", "message": barred.message, **_states(barred.path)}
    for path in (each.template for kind in WORK for each in kind.pods if each.template.keys):
        yield {
            "include": "keys",
            "path": path.groups,
            "groups": optional("object", path.groups),
            "allowed": quoted(path.keys),
            "allowedNames": " and ".join(path.keys),
        }


def _states(path: str) -> Mapping[str, str]:
    now, before = (optional(of, path) for of in ("object", "variables.before"))
    return {"now": now, "before": before}


# What Kueue's webhooks write into the pods of what serves before a policy sees it, whatever its author wrote
# (0.19.2, pkg/controller/jobs/leaderworkerset/leaderworkerset_webhook.go and its like).
_SERVING: Final = tuple(each for each in WORK if each.serves)
_NOTES: Final = (
    *((each, "pod-suspending-parent", each.framework) for each in _SERVING),
    (BY_KIND["LeaderWorkerSet"], "pod-group-serving", "true"),
    (BY_KIND["Deployment"], "managed", "true"),
)


def reserved(stack: Stack) -> Policy:
    written = (
        f"(request.resource.resource == '{kind.resource}' && key == 'kueue.x-k8s.io/{note}' && "
        f"each.keys[key] == '{value}')"
        for kind, note, value in _NOTES
    )
    # By which controllers that a cluster brings along find their pods.
    of_controllers = (
        f"(key.startsWith('{each.prefix}') && !(key in {quoted([each.prefix + name for name in each.free])}))"
        for each in BROUGHT
        if each.prefix
    )
    of_tenants = (names.POOL_LABEL, *((names.KEEP_UNTIL_ANNOTATION,) if stack.stops_idle_gangs else ()))
    return policy(
        "muster-reserved",
        kinds={"makersOfPods": makers_of_pods(stack)},
        values={
            "isOfControllersOfPods": " ||\n".join(of_controllers),
            "ofTenants": of_tenants,
            "ofTenantsNames": " and ".join(of_tenants),
            "isWrittenByKueue": " ||\n".join(written),
            "replicasetsAndServing": ["replicasets", *(each.resource for each in _SERVING)],
            "groupsOfWork": tuple(by_group(WORK)),
        },
        scheduler=stack.scheduler,
    )


_ALL: Final = ("CREATE", "UPDATE", "DELETE")


def sizes(stack: Stack) -> Policy:
    most = {**MOST_KIBIBYTES, **stack.tenancy.sizes}
    pods = most_objects(stack)["pods"]
    bounds = [f"'{word.lower()}': {most[word]}" for word in MOST_KIBIBYTES]
    counts = {
        each.kind: f"{' and '.join(count.split('.')[-1] for count in of_kind.factors)} in "
        f"{of_kind.template.groups or 'spec'}"
        for each in COUNTED
        for of_kind in each.pods
        if of_kind.factors
    }
    return policy(
        "muster-sizes",
        kinds={"work": kinds_of(stack.judged_work)},
        values={
            # A RayCronJob is as large as the RayJobs that it makes.
            "bounds": ",\n".join((*bounds, f"'raycronjobs': {most['rayJobs']}")),
            "most": pods,
            "groupsOfWork": tuple(by_group(WORK)),
            "tooManyOfOthers": too_many(pods),
            "counts": ", ".join(f"'{kind}': '{text}'" for kind, text in counts.items()),
        },
    )


def owners(stack: Stack) -> Policy:
    return policy(
        "muster-owners",
        kinds={"work": kinds_of(stack.judged_work, operations=_ALL)},
        values={
            "makersGroups": [group for group in by_group(WORK) if group != "batch"],
            "makersKinds": [each.kind for each in WORK if each.is_queued and each.group != "batch"],
        },
        scheduler=stack.scheduler,
    )


_REPORTED: Final = "controllers write the status; change or delete the object itself"
_COUNTED: Final = "controllers write the status, and a queue counted its pods; create one of another size"


def protected(stack: Stack) -> Policy:
    gangs = (each for each in stack.judged_work if each.is_one_gang)
    instead = (
        f"request.resource.resource == '{each.resource}' ? '{_COUNTED if each.is_one_gang else _REPORTED}' :"
        for each in WORK
    )
    return policy(
        "muster-protected",
        kinds={
            "statusesOfWork": kinds_of(stack.judged_work, operations=_ALL, part="/status"),
            "scalesOfGangs": kinds_of(gangs, operations=_ALL, part="/scale"),
        },
        values={"insteadForWork": "\n".join(instead)},
    )


def ending(stack: Stack) -> Policy:
    return policy(
        "muster-ending",
        kinds={"work": kinds_of(stack.judged_work, operations=_ALL)},
        values={
            "queued": [each.resource for each in QUEUED],
            "longestGrace": stack.tenancy.termination_grace,
        },
    )


def finished(stack: Stack) -> Policy:
    cleaned = [each for each in WORK if each.cleaning]
    others = (
        f"request.resource.resource in {[each.resource for each in cleaned if each.cleaning == path]} ? "
        f"({optional('${of}', path)}.orValue('') in ['All', 'Running'] ? [] : "
        f"['set {path} to Running']) :\n"
        for path in dict.fromkeys(each.cleaning for each in cleaned)
    )
    return policy(
        "muster-finished",
        kinds={"endingWork": kinds_of((BY_KIND["RayJob"], BY_KIND["RayService"], *cleaned))},
        values={"longestGrace": stack.tenancy.termination_grace, "faultsOfOthers": "".join(others)},
    )


def autoscalers() -> Policy:
    return policy("muster-autoscalers", kinds={"rayWork": kinds_of(RAY, operations=("UPDATE",))})
