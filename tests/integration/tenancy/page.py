"""Writes the page of a tenant's rights: `python -m tests.integration.tenancy.page docs/tenant-rights.md`.

The page is made of the judgements (judgements.yaml) and of the attacks, which the tests of this folder try
against an API server. A test checks that it is up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from muster.model.stack import Scheduler
from tests.integration.tenancy.attack import API_SERVER, Attack
from tests.integration.tenancy.attacks import ALL, kai
from tests.integration.tenancy.judgements import (
    KINDS,
    Effect,
    Verdict,
    effects,
    judgements,
    rights,
    shared,
)

_HEAD: Final = """\
# What a tenant can and cannot do

<!-- Written by `python -m tests.integration.tenancy.page docs/tenant-rights.md`; do not edit it. -->

A tenant is a member of a team: a person, a group or a pipeline with the ClusterRole `muster-team-member` in
the team's namespace. This page lists what members may request, and which fields of their work are judged. It
is tested against a Kubernetes API server with the definitions of the pinned Kueue and KubeRay: each judged
field has at least one attack, {count} in all, as a member, as a person of a mapped group and as a tenant with
far too many rights, by create, update and patch. A field that a new release adds fails the tests until it is
judged. Fields that are not listed are allowed, or have no effect:
[judgements.yaml](../tests/integration/tenancy/judgements.yaml) has each with its reason.

The policies are ValidatingAdmissionPolicies, in force with `tenancy.mode: enforce`, the default, also while
Muster's webhooks are down. With Kueue the controller also deletes pods with devices that have had no quota
for a minute and their grace period. The words of each refusal are in
[what admission answers](reference/admission.md), and what is not promised in
[known issues](known-issues.md#tenants-and-security).
"""
_SCHEDULERS: Final = {Scheduler.KUEUE: "Kueue", Scheduler.KAI: "KAI"}
_PATHS: Final = """\
A path names the kind and then the fields. `[]` are the items of a list and `{}` the values of a map, of
which one can be named: `labels{app}`. `(a|b)` is one of several. What several kinds have in common has a name
of its own, and is listed once:
"""
_RUNNING: Final = """\
An update of work that runs must leave it to Kueue and KubeRay to stop and to delete it, and must take nothing
that its queue has not counted. Other fields are fixed by the API server or harmless. `recounted`: Kueue stops
the work and counts it anew. `open` is in [known issues](known-issues.md#elastic-clusters-and-services).
"""
_WAYS: Final = """\
The first request of each kind once got GPUs without quota. The others are its neighbours by kind, field, verb
and number of steps. Where no policy is in force, the backstop ends the pods of the first six.

Accounts and Secrets that running work names may go: members have no right to accounts, and no policy sees who
names one. Without the account of its head KubeRay stops no elastic cluster, and the backstop ends its pods.
"""
# What a tenant is after -> the beginnings of its requests' names, the one that once worked first.
WAYS: Final = {
    "a cluster that is deleted and runs on": (
        "annotation ray.io/ft-enabled beside",
        "annotation ray.io/external-storage-namespace beside",
        "RayCluster without its fault tolerance",
        "RayCluster without the annotation of its fault",
        "RayCluster with a finalizer",
        "RayJob with a finalizer",
    ),
    "a cluster that no preemption stops": (
        "labels among the head's flags",
        "labels among the workers' flags",
        "a label of the head that is none",
        "resources of workers said twice",
        "an idle timeout without",
        "a version that is none",
        "Redis by a variable",
        "the user of Redis by a flag",
        "a cluster that scales itself with a group",
        "RayCluster that says it is a RayJob's",
        "RayCluster whose head's account",
        "RayCluster that asks for",
        "RayService with a second Service",
        "Job whose pod is a second head",
        "CronJob whose pod is a second head",
        "RayJob whose submitter is a second head",
    ),
    "a job that is on hold and keeps its GPUs": (
        "RayJob with backoffLimit that KubeRay",
        "RayJob with activeDeadlineSeconds that KubeRay",
        "RayJob with submitterConfig.backoffLimit that KubeRay",
        "RayJob with submissionMode that KubeRay",
        "RayJob whose runtime environment",
    ),
    "work that its queue takes for another's": (
        "Job whose owner becomes",
        "RayCluster whose owner becomes",
        "RayJob whose owner becomes",
        "Job with a controller as its owner",
        "RayCluster with a controller as its owner",
        "CronJob that names a controller",
        "Job of a CronJob whose owner has another",
        "Job of a CronJob with another owner",
    ),
    "a cluster that is larger than it was counted": (
        "RayCluster of a RayJob freed",
        "RayCluster of a RayService freed",
        "RayCluster of a RayJob made larger",
        "RayCluster of a RayService made larger",
    ),
    "a job that cannot end": (
        "Secret of a RayJob changed",
        "RayCluster of a RayJob changed",
        "Secret with the name of",
        "Secret with a drawn name",
        "RayJob with a Secret of its own",
        "RayService with a cluster that stays",
    ),
    "pods that are counted as none": ("two billion workers", "65536 by 65536 hosts", "workers of no host"),
    "the GPUs of other pods of its node": (
        "the GPUs of its node, by",
        "the GPUs that a ConfigMap",
        "a GPU by its",
    ),
}
_MORE: Final = """\
A member has no right to these requests. The policies refuse them as well, to a tenant who was given more,
such as the role `edit`.
"""
_KAI: Final = """\
Queues and priorities are labels that any author of a pod can write. In addition to the above, these are
refused:
"""
_REST: Final = (
    "Every other request of a member is refused, to every resource and subresource of the API server.\n"
)
_POLICIES: Final = {
    "muster-work": "Queue, priority and admission are those of the team.",
    "muster-owners": "What a controller made is changed by that controller alone.",
    "muster-ray-size": "A Ray cluster never has more than its queue counted.",
    "muster-growth": "Work that runs stays as large as its queue counted it.",
    "muster-ray-valid": "KubeRay stops and ends what it takes for valid, and nothing else.",
    "muster-finished": "A RayJob that has finished gives back its nodes with its quota.",
    "muster-ending": "Work that is deleted ends.",
    "muster-templates": "Pods can start, keep to their team, and end when their work is deleted.",
    "muster-ray": "Ray runs with authentication, in a version that has it.",
    "muster-ray-services": "No address or port outside the cluster, in a Ray object.",
    "muster-services": "No address or port outside the cluster, in a Service.",
    "muster-routes": "No way in from outside the cluster.",
    "muster-reserved": "Labels, annotations and names of controllers are written by controllers alone.",
    "muster-accounts": "No tenant acts as an account that a controller made.",
    "muster-sizes": "Nothing large is stored in the API server.",
    "muster-pods": "GPUs are for pods of work that a queue admitted.",
    "muster-pod-security": "Where a stack allows capabilities, pods keep to the rest of the standard.",
    "muster-protected": "What decides over admission is written by controllers alone.",
    "muster-namespaces": "The namespace of a team is written by the platform team alone.",
}


def page() -> str:
    """The whole page."""
    count = len(ALL) + len(kai.ALL)
    parts = [
        _HEAD.format(count=count),
        *_requests(),
        *_shared(),
        *_running(),
        *_ways(),
        *_kinds(),
        *_others(),
        *_with_kai(),
    ]
    return "\n".join(parts)


def _requests() -> Iterator[str]:
    yield "## Requests\n"
    yield _REST
    rows = []
    for entry in dict.fromkeys((each.resource, each.reason, each.only, each.since) for each in rights()):
        resource, reason, only, since = entry
        verbs = [
            each.verb for each in rights() if (each.resource, each.reason, each.only, each.since) == entry
        ]
        which = f"{resource.removeprefix('/')}{f' (with {_SCHEDULERS[only]})' if only else ''}"
        rows.append((", ".join(verbs), reason, f"`{which}`{_from(since)}"))
    grouped = dict.fromkeys((verbs, reason) for verbs, reason, _ in rows)
    yield _table(
        ("Resources", "Verbs", ""),
        ((", ".join(which for v, r, which in rows if (v, r) == key), key[0], key[1]) for key in grouped),
    )


def _from(since: str) -> str:
    return f" (from Kubernetes {since})" if since else ""


def _shared() -> Iterator[str]:
    yield "## Fields\n"
    yield _PATHS
    yield _table(
        ("Name", "Where"),
        ((f"`{part}`", ", ".join(f"`{each}`" for each in at)) for part, at in shared().at.items()),
    )


def _running() -> Iterator[str]:
    yield "### While work runs\n"
    yield _RUNNING
    yield _table(
        ("An update is", "By, or why", "Fields"),
        (
            (effect.value, f"`{by}`" if effect is Effect.REFUSED else by, ", ".join(fields))
            for effect in (Effect.REFUSED, Effect.RECOUNTED, Effect.OPEN)
            for by, fields in _by_reason(effect).items()
        ),
    )


def _by_reason(effect: Effect) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in effects():
        if each.verdict is effect:
            found.setdefault(each.by, []).append(f"`{each.pattern}`")
    return found


def _ways() -> Iterator[str]:
    yield "## Ways to GPUs without quota\n"
    yield _WAYS
    rows = []
    for way, requests in WAYS.items():
        for number, (name, attack) in enumerate(attacks_of(requests).items()):
            at = ", ".join(tried.value.lower() for tried in attack.tried)
            rows.append((way if number == 0 else "", name, f"refused at {at}", f"`{attack.policy}`"))
    yield _table(("To get", "Request", "Answer", "By"), rows)


def attacks_of(requests: Iterable[str]) -> dict[str, Attack]:
    """One attack of each form by its name, without the place."""
    found: dict[str, Attack] = {}
    for words in requests:
        for attack in (attack for attack in ALL if attack.name.startswith(words)):
            found.setdefault(attack.name.partition(", in ")[0], attack)
    return found


def _kinds() -> Iterator[str]:
    """Which policy judges which fields of each kind."""
    judged = [each for each in judgements() if each.verdict is Verdict.JUDGED]
    for part in dict.fromkeys(each.part for each in judged):
        version = f" (`{KINDS[part]}`)" if part in KINDS else ""
        yield f"### {part}{version}\n"
        mine = [each for each in judged if each.part == part]
        for policy in dict.fromkeys(each.by for each in mine):
            fields = dict.fromkeys(f"`{each.field}`" for each in mine if each.by == policy)
            yield f"- `{policy}`: {', '.join(fields)}"
        yield ""


def _others() -> Iterator[str]:
    yield "## With more rights than a member has\n"
    yield _MORE
    attacks = [attack for attack in ALL if attack.by_rbac and not attack.name.endswith("].template")]
    yield _by_policy({attack.name: attack for attack in attacks})
    yield "## Policies\n"
    yield "\n".join(f"- `{name}`: {text}" for name, text in _POLICIES.items()) + "\n"


def _with_kai() -> Iterator[str]:
    yield "## With KAI\n"
    yield _KAI
    found: dict[str, Attack] = {}
    for attack in kai.ALL:
        found.setdefault(attack.name.partition(", in ")[0], attack)
    yield _by_policy(found)


def _by_policy(attacks: Mapping[str, Attack]) -> str:
    """A row for what one policy keeps from one gain."""
    rows: dict[tuple[str, str], dict[str, Attack]] = {}
    for name, attack in attacks.items():
        rows.setdefault((attack.policy, attack.gains), {})[name] = attack
    return _table(
        ("What is refused", "Policy", "It would gain"),
        (("; ".join(mine), f"`{policy}`", gains) for (policy, gains), mine in rows.items()),
    )


def policies_without_text() -> set[str]:
    """Policies of an attack that the page does not explain."""
    known = {*_POLICIES, API_SERVER, "PodSecurity"}
    return {attack.policy for attack in (*ALL, *kai.ALL)} - known


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'|'.join('---' for _ in head)}|"]
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page())
