"""`muster check` answers as the API server does, to published samples and to every attack of a tenant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

import pytest

from muster.check.admission import CONTROLLER, DEFAULTS, DEFINITION, FIGURES, NAMESPACE, ROLE, Admission
from muster.check.policies import Level
from muster.model.stack import Scheduler
from muster.model.work import WORK as KINDS
from muster.model.work import Work
from tests.integration.tenancy.attack import Attack, Way
from tests.integration.tenancy.attacks import ALL
from tests.integration.tenancy.attacks.kai import ALL as KAI
from tests.integration.tenancy.cluster import Object
from tests.integration.tenancy.conftest import World, described
from tests.integration.tenancy.samples import (
    PAGE,
    TEAM,
    WORK,
    Sample,
    folders,
    in_queue,
    page,
    record,
    recorded,
    samples,
)
from tests.integration.tenancy.test_work import ORDINARY
from tests.unit.check.public_work import cases

PUBLISHERS: Final = (
    "kuberay",
    "kueue",
    "kai",
    "lws",
    "jobset",
    "pytorchjob",
    "mpijob",
    "trainer",
    "google",
    "aws",
)
# Answers of the API server that no policy of ours gives: schemas, Pod Security, object quotas.
_OTHERS: Final = (
    "is invalid",
    "violates PodSecurity",
    "exceeded quota",
    "strict decoding",
    "resourceVersion should not be set",
    "could not find the requested resource",
)


def _admission(world: World) -> Admission:
    return Admission(replace(described(), scheduler=world.scheduler), TEAM)


@pytest.mark.parametrize("publisher", PUBLISHERS)
def test_a_verdict_is_recorded_for_each_sample(publisher: str) -> None:
    """On stack `local`, and where Ray's authentication is required."""
    _need(publisher)
    assert recorded()[publisher] == record(publisher)


def test_the_page_of_samples_is_current() -> None:
    written = "write it anew: python -m tests.integration.tenancy.samples"
    assert PAGE.read_text(encoding="utf-8") == page(), written


def test_most_published_work_runs_with_nothing_but_a_queue() -> None:
    """On `local`, of what teams submit: a rule that turns friction into refusals shows here."""
    work = {
        name: entry["local"]
        for publisher in ("kuberay", "kueue", "lws")
        for name, entry in recorded()[publisher].items()
        if name.partition(": ")[2].split(" ")[0] in WORK
    }
    refused = {name for name, verdict in work.items() if "refused" in verdict}
    assert len(refused) < len(work) / 4, sorted(refused)


@pytest.mark.parametrize("publisher", ["kuberay", "kueue"])
def test_the_api_server_answers_samples_as_the_check_does(world: World, publisher: str) -> None:
    admission = _admission(world)
    agree(world, admission, _samples(publisher, admission))


def test_the_api_server_answers_samples_of_kai_as_the_check_does(kai: World) -> None:
    admission = _admission(kai)
    agree(kai, admission, _samples("kai", admission))


def test_the_api_server_answers_published_work_as_the_check_does(served: World) -> None:
    admission = Admission(replace(described(), work=tuple(Work)), TEAM)
    agree(served, admission, _published(admission))


def test_the_api_server_answers_published_work_for_kai_as_the_check_does(kai: World) -> None:
    admission = _admission(kai)
    agree(kai, admission, _published(admission))


def test_the_api_server_answers_attacks_as_the_check_does(world: World) -> None:
    agree(world, _admission(world), _created(ALL))


def test_the_api_server_answers_attacks_in_kai_stacks_as_the_check_does(kai: World) -> None:
    agree(kai, _admission(kai), _created(KAI))


def test_ordinary_work_would_be_admitted(world: World) -> None:
    admission = _admission(world)
    for name, body in ORDINARY.items():
        # The namespace has the volumes of no stack.
        found = [each for each in admission.review(body).findings if each.by not in (FIGURES, NAMESPACE)]
        assert not found, name
    agree(world, admission, ORDINARY)


def _need(publisher: str) -> None:
    if publisher not in folders():
        pytest.skip(f"the samples of {publisher} are not on this machine")


def _samples(publisher: str, admission: Admission) -> dict[str, Object]:
    _need(publisher)
    found = {each.name: in_queue(each, admission) for each in samples(publisher)}
    return {name: body for name, body in found.items() if body["kind"] in _served(admission)}


def _served(admission: Admission) -> set[str]:
    return {each.kind for each in KINDS if each.family in admission.stack.work}


def _published(admission: Admission) -> dict[str, Object]:
    """Work of any kind that others published for a stack with this scheduler."""
    is_kai = admission.stack.scheduler is Scheduler.KAI
    listed = (each for each in cases() if each.stack.startswith("kai") == is_kai)
    found = {each.name: in_queue(Sample("", each.name, each.body), admission) for each in listed}
    for body in found.values():
        body["metadata"]["namespace"] = TEAM
    return found


def _created(attacks: Iterable[Attack]) -> dict[str, Object]:
    """Those that a tenant creates in its own namespace."""
    return {
        each.name: each.body
        for each in attacks
        if Way.CREATE in each.tried
        and not each.subresource
        and each.body["metadata"].get("namespace") == TEAM
    }


def agree(
    world: World, admission: Admission, bodies: Mapping[str, Object], *, has_webhooks: bool = False
) -> None:
    """Each body gets the same answer of both. `has_webhooks`: ours are in force, too. One that has no time to
    answer lets everything pass, and is asked again.
    """
    found: dict[str, str] = {}
    for name, body in bodies.items():
        found[name] = _disagreement(world, admission, body, has_webhooks)
        if has_webhooks and found[name]:
            found[name] = _disagreement(world, admission, body, has_webhooks)
    assert {name: difference for name, difference in found.items() if difference} == {}


def _disagreement(world: World, admission: Admission, body: Object, has_webhooks: bool) -> str:
    """Empty where both give the same answer, by the same policy in the same words."""
    offline = admission.review(body)
    absent = (CONTROLLER,) if has_webhooks else (CONTROLLER, FIGURES, DEFAULTS)
    findings = [each for each in offline.findings if each.by not in absent]
    refusals = [each for each in findings if each.level is Level.REFUSED]
    # kubectl has unknown fields refused.
    is_strict = any(each.by == DEFINITION for each in refusals)
    # A dry run does not reach the store, which refuses this field.
    dry_run = "resourceVersion" not in offline.object["metadata"]
    # Of a name that the server appends to, check has its own ending.
    named = {key: each for key, each in offline.object["metadata"].items() if key == "name"}
    whole = {**body, "metadata": {**body["metadata"], **named, "namespace": TEAM}}
    written = whole if has_webhooks else offline.object
    answer = world.member.create(written, dry_run=dry_run, is_strict=is_strict)
    if answer.is_allowed:
        return f"refused offline alone: {refusals}" if refusals else ""
    if any(word in answer.message for word in _OTHERS):
        return "" if refusals else f"refused by the API server alone: {answer.message}"
    if any(each.by == ROLE for each in refusals):
        return "" if "cannot create" in answer.message else f"refused by a role offline: {answer.message}"
    if any(
        (f"'{each.by}'" in answer.message or each.by in (FIGURES, DEFAULTS))
        and answer.message.endswith(each.message)
        for each in refusals
    ):
        return ""
    if body["kind"] == "Service" and any(f"'{each.by}'" in answer.message for each in refusals):
        return ""  # The API server gives it ports and more first, and names them, too.
    if "alpha" in body["apiVersion"] and refusals:
        return ""  # The API server drops the fields that an older version lacks, and more is refused then.
    return f"the API server: {answer.message}; offline: {refusals}"
