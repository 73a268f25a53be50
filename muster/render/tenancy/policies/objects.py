"""What a team stores and owns, how its work ends, and who writes what: sizes, owners, protected, ending."""

from typing import Final

from muster.model.stack import Scheduler, Stack
from muster.model.tenancy import MOST_KIBIBYTES
from muster.model.work import BY_KIND, COUNTED, QUEUED, RAY, WORK, by_group
from muster.render.tenancy.policies import pod_templates
from muster.render.tenancy.policies.files import policy
from muster.render.tenancy.policies.policy import Policy, kinds_of
from muster.render.tenancy.team import most_objects

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
            "tooManyOfOthers": pod_templates.too_many(pods),
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
            "mayScale": "${isAutoscaler}" if stack.scheduler is Scheduler.KAI else "false",
        },
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
        f"({pod_templates.optional('${of}', path)}.orValue('') in ['All', 'Running'] ? [] : "
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
