"""Work that runs stays as large as its queue counted it: muster-growth.yaml."""

from muster.model.stack import Stack
from muster.model.work import GROUPED, WORK
from muster.render.tenancy.policies import pod_templates
from muster.render.tenancy.policies.files import policy
from muster.render.tenancy.policies.policy import Policy, kinds_of


def growth(stack: Stack) -> Policy:
    grouped = [(each, each.pods[0].template.groups) for each in GROUPED]
    return policy(
        "muster-growth",
        kinds=kinds_of((each for each in stack.judged_work if each.is_queued), operations=("UPDATE",)),
        values={
            "wasSuspended": pod_templates.is_suspended("oldObject"),
            "oneGang": [each.resource for each in WORK if each.is_one_gang],
            "resizable": [
                *("jobs", *(each.resource for each, _ in grouped)),
                *(each.resource for each in WORK if each.is_pod_by_pod),
            ],
        },
        lists={
            "groupsOfWork": [
                {
                    "include": "keptGroups",
                    "kind": each.kind,
                    "resource": each.resource,
                    "path": path,
                    "now": pod_templates.optional("object", path),
                    "before": pod_templates.optional("oldObject", path),
                }
                for each, path in grouped
            ]
        },
    )
