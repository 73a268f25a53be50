"""Everything that a member's role allows is judged: each verb, kind and field (judgements.yaml), and what an
update of the field does to work that runs (running.yaml).

The fields come from the API server's own schemas, with the kinds of the KubeRay and Kueue that are pinned. A
field that a new release brings fails here until it has been judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from muster.model.stack import Scheduler
from muster.render import tenancy
from tests.integration.tenancy.attack import API_SERVER, CHANGES
from tests.integration.tenancy.attacks import ALL
from tests.integration.tenancy.cluster import Object, refused
from tests.integration.tenancy.conftest import World, described
from tests.integration.tenancy.fields import alternatives, leaves, matches, without_key
from tests.integration.tenancy.judgements import (
    KINDS,
    Effect,
    Judgement,
    Verdict,
    effects,
    judgements,
    judgements_of,
    newer,
    rights,
    shared,
)
from tests.integration.tenancy.page import WAYS, attacks_of, page, policies_without_text

Rights = set[tuple[str, str]]


@pytest.fixture(scope="module")
def kubernetes(world: World) -> str:
    """Its minor version, such as 1.37."""
    found = world.admin.get("/version").body
    return f"{found['major']}.{found['minor']}"


@pytest.fixture(scope="module")
def fields(world: World) -> Mapping[str, str]:
    """Every field under the name by which it is judged, with one of its paths."""
    found: dict[str, str] = {}
    for kind, version in KINDS.items():
        group, _, short = version.rpartition("/")
        path = f"/openapi/v3/apis/{version}" if group else f"/openapi/v3/api/{short}"
        schemas = world.admin.get(path).body["components"]["schemas"]
        for leaf in leaves(kind, _schema(schemas, group, short, kind), schemas):
            found.setdefault(shared().name(leaf), leaf)
    return found


def _schema(schemas: Mapping[str, Any], group: str, version: str, kind: str) -> Mapping[str, Any]:
    wanted = {"group": group, "version": version, "kind": kind}
    (found,) = (
        each for each in schemas.values() if wanted in each.get("x-kubernetes-group-version-kind", ())
    )
    body: Mapping[str, Any] = found
    return body


_TABLES = pytest.mark.parametrize(
    ("table", "listed", "by_policy"),
    [
        ("judgements.yaml", judgements(), Verdict.JUDGED),
        ("running.yaml", effects(), Effect.REFUSED),
    ],
    ids=["new objects", "updates of running work"],
)


@_TABLES
def test_every_field_of_what_a_member_writes_is_judged(
    fields: Mapping[str, str], table: str, listed: Sequence[Judgement], by_policy: object
) -> None:
    new = {field: path for field, path in fields.items() if not judgements_of(field, listed)}
    assert not new, f"decide what they are, in {table} (field: one of its paths): {new}"


@_TABLES
def test_no_field_has_two_verdicts(
    fields: Mapping[str, str], table: str, listed: Sequence[Judgement], by_policy: object
) -> None:
    """Several policies may judge one, each once."""
    twice = {
        field: found
        for field in fields
        if len(found := judgements_of(field, listed)) > 1
        and ({each.verdict for each in found} != {by_policy} or len({each.by for each in found}) < len(found))
    }
    assert not twice, table


@_TABLES
def test_no_judgement_is_of_a_field_that_is_gone(
    fields: Mapping[str, str],
    kubernetes: str,
    table: str,
    listed: Sequence[Judgement],
    by_policy: object,
) -> None:
    gone = [
        each
        for each in listed
        if _has(kubernetes, each.since)
        and not any(each.applies(field) for field in fields)
        and not (each.key and all(without_key(word) in fields for word in alternatives(each.pattern)))
    ]
    assert not gone, table


def _has(kubernetes: str, since: str) -> bool:
    """Whether a version has what another one was the first to have; "" is older than all."""
    return _minor(kubernetes) >= _minor(since)


def _minor(version: str) -> int:
    return int(version.partition(".")[2] or 0)


def test_what_is_newer_is_something_that_is_judged() -> None:
    known = {each.pattern for each in judgements()} | {each.resource for each in rights()}
    assert newer() <= known


def _judged() -> Iterator[tuple[str, str]]:
    for each in judgements():
        if each.verdict is Verdict.JUDGED:
            yield from ((each.by, pattern) for pattern in alternatives(each.pattern))


@pytest.mark.parametrize(("policy", "pattern"), tuple(_judged()))
def test_what_a_policy_judges_is_attacked(policy: str, pattern: str) -> None:
    """The attack shows that the policy refuses it (test_attacks.py)."""
    assert any(matches(pattern, shared().name(attack.path)) and attack.policy == policy for attack in ALL), (
        f"no attack of {policy} has a path like {pattern}"
    )


def _refused() -> Iterator[tuple[str, str]]:
    for each in effects():
        if each.verdict is Effect.REFUSED:
            yield from ((each.by, pattern) for pattern in alternatives(each.pattern))


@pytest.mark.parametrize(("policy", "pattern"), tuple(_refused()))
def test_what_is_refused_of_running_work_is_tried_by_an_update(policy: str, pattern: str) -> None:
    tried = (
        attack
        for attack in ALL
        if policy in (attack.policy, *attack.also) and set(attack.tried) & set(CHANGES)
    )
    assert any(matches(pattern, without_key(shared().name(attack.path))) for attack in tried), (
        f"no attack of {policy} changes a field like {pattern}"
    )


@pytest.mark.parametrize("attack", ALL, ids=lambda attack: attack.name)
def test_an_attack_is_of_a_field_that_its_policy_judges(attack: Any) -> None:
    """What needs a right that no member has is not in the list of fields."""
    if not attack.by_rbac and attack.policy != API_SERVER:
        found = judgements_of(attack.path)
        assert {each.verdict for each in found} == {Verdict.JUDGED}, attack.path
        assert attack.policy in {each.by for each in found}, attack.path


def test_there_are_many_attacks_and_each_would_gain_something() -> None:
    assert len({attack.name for attack in ALL}) == len(ALL) >= 200
    assert all(attack.gains for attack in ALL)


def _granted(rules: list[Object]) -> Rights:
    return {
        (f"{group}/{resource}", verb)
        for rule in rules
        for group in rule.get("apiGroups", ())
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


_BY_KUBERNETES = ("everyone", "accounts")


def _declared(scheduler: Scheduler, kubernetes: str, *to: str) -> Rights:
    return {
        (each.resource, each.verb)
        for each in rights()
        if each.only in (None, scheduler) and each.to in to and _has(kubernetes, each.since)
    }


@pytest.mark.parametrize("scheduler", Scheduler)
def test_the_role_of_a_member_grants_what_is_declared(scheduler: Scheduler, kubernetes: str) -> None:
    role = tenancy.member_role(replace(described(), scheduler=scheduler))
    assert _granted(role["rules"]) == _declared(scheduler, kubernetes, "members")


def test_the_api_server_grants_a_member_nothing_else(world: World, kubernetes: str) -> None:
    asked = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": "team-a"},
    }
    for caller, by_kubernetes in ((world.member, _BY_KUBERNETES), (world.person, ("everyone",))):
        found = caller.send("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", asked)
        granted = _granted(found.body["status"]["resourceRules"])
        assert granted == _declared(world.scheduler, kubernetes, "members", *by_kubernetes)


_WRITES = {"post": "create", "put": "update", "patch": "patch", "delete": "delete"}


def _writes(world: World) -> Iterator[tuple[str, str, str]]:
    """Every write that the API server serves: the path, the HTTP method and the resource with its group."""
    for name, document in world.admin.get("/openapi/v3").body["paths"].items():
        if not name.startswith("api"):
            continue
        group = name.split("/")[1] if name.startswith("apis/") and name.count("/") == 2 else ""
        paths = world.admin.get(document["serverRelativeURL"]).body.get("paths", {})
        for path, methods in paths.items():
            parts = path.removeprefix(f"/{name}/").replace("{namespace}", "team-a").split("/")
            if parts[0] == "namespaces" and len(parts) > 2:
                parts = parts[2:]
            resource = "/".join([parts[0], *parts[2:3]])
            for method in methods.keys() & _WRITES.keys():
                where = (
                    path.replace("{namespace}", "team-a").replace("{name}", "any").replace("{path}", "any")
                )
                yield where, method, f"{group}/{resource}"


def test_every_other_write_is_refused_to_a_member(world: World, kubernetes: str) -> None:
    """Also of a subresource, and of what is not in a namespace."""
    declared = _declared(world.scheduler, kubernetes, "members", *_BY_KUBERNETES)
    collections = {(resource, "deletecollection") for resource, verb in declared if verb == "delete"}
    tried = 0
    for path, method, resource in _writes(world):
        if (resource, _WRITES[method]) in declared | collections and "/namespaces/team-a/" in path:
            continue
        if resource.startswith(("authorization.k8s.io/", "authentication.k8s.io/")):
            continue
        for caller in (world.member, world.person):
            refused(caller.send(method.upper(), f"{path}?dryRun=All", {}), "cannot")
            tried += 1
    assert tried > 200


def test_a_right_has_a_reason() -> None:
    assert all(each.reason for each in rights())


def test_the_page_of_a_tenant_s_rights_is_up_to_date() -> None:
    written = (Path(__file__).parents[3] / "docs" / "tenant-rights.md").read_text()
    assert written == page(), "python -m tests.integration.tenancy.page docs/tenant-rights.md"


def test_the_page_explains_each_policy() -> None:
    assert not policies_without_text()


def test_the_page_lists_what_once_got_gpus_with_thirty_neighbours() -> None:
    listed = [words for requests in WAYS.values() for words in requests]
    assert all(attacks_of([words]) for words in listed)
    assert len(attacks_of(listed)) >= len(WAYS) + 30
