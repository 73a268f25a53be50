"""The API server judges what a gang asks for and says no: told at once, given back, tried again or not."""

import urllib.error
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pytest

from muster.model import names
from tests.faults import gangs
from tests.faults.breaks import Break, Call, Calm, Fault
from tests.faults.exchange import WORDS
from tests.faults.plane import items
from tests.faults.stage import Stage

_KINDS: Final = {"podtemplates": "PodTemplate", "provisioningrequests": "ProvisioningRequest"}
_POLICIES: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmission"
_POLICY_WORDS: Final = "no templates this week"
_SEVERAL: Final = 4


@dataclass(slots=True)
class _Denies(Calm):
    """The plan: nothing of this kind is created."""

    resource: str
    fault: Fault
    judged: int = 0

    def judge(self, call: Call) -> Break | None:
        if (call.verb, call.resource) != ("create", self.resource):
            return None
        self.judged += 1
        return Break(self.fault)


@pytest.mark.parametrize("resource", _KINDS)
def test_what_is_forbidden_for_a_while_is_told_given_back_and_had_later(stage: Stage, resource: str) -> None:
    said = f"creation forbidden: {_KINDS[resource]} Forbidden: {WORDS}"
    stage.proxy.plan = _Denies(resource, Fault.FORBIDDEN)
    with stage.manager().kept() as manager:
        gang = stage.submit()
        stage.eventually("it says so", lambda: said in stage.released_for(gang))
        stage.eventually("and tells whoever looks", partial(_is_told, stage, gang, "GangReleased", said))
        stage.eventually("it has given back everything", partial(_holds_nothing, stage, gang))
        stage.proxy.plan = Calm()
        stage.completes(gang)
    assert manager.exits == []


@pytest.mark.parametrize("resource", _KINDS)
def test_a_server_that_has_not_read_its_roles_yet_costs_no_gang_its_attempt(
    stage: Stage, resource: str
) -> None:
    stage.proxy.plan = plan = _Denies(resource, Fault.STARTING)
    with stage.manager().kept() as manager:
        gang = stage.submit()
        stage.eventually("it has been told so several times", lambda: plan.judged >= _SEVERAL)
        stage.proxy.plan = Calm()
        stage.completes(gang)
    assert manager.exits == []
    assert not stage.released_for(gang)


@pytest.mark.parametrize("resource", _KINDS)
def test_what_is_invalid_is_refused_with_the_servers_words_until_a_person_acts(
    stage: Stage, resource: str
) -> None:
    said = f"request refused: {_KINDS[resource]} Invalid: {WORDS}"
    stage.proxy.plan = _Denies(resource, Fault.INVALID)
    with stage.manager().kept() as manager:
        gang = stage.submit()
        stage.eventually("it is refused", lambda: _refusal(stage, gang) == said)
        stage.eventually("and tells whoever looks", partial(_is_told, stage, gang, "GangRefused", said))
        stage.eventually("it has given back everything", partial(_holds_nothing, stage, gang))
        stage.proxy.plan = Calm()
        gangs.patch(stage.plane, gang, {"spec": {"active": True}})
        stage.completes(gang)
    assert manager.exits == []


def test_a_policy_of_the_platforms_is_named_and_asked_again(stage: Stage) -> None:
    """Said by the server itself: its words are what the rules of reasons.py go by."""
    with stage.manager().kept():
        with _policy(stage):
            gang = stage.submit()
            said = stage.eventually("it says so", lambda: stage.released_for(gang))
            assert all(each.startswith("denied by a policy: PodTemplate Invalid: ") for each in said), said
            assert all("'no-templates'" in each and _POLICY_WORDS in each for each in said), said
        stage.completes(gang)


@contextmanager
def _policy(stage: Stage) -> Iterator[None]:
    """In force when the block begins."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["podtemplates"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "false", "message": _POLICY_WORDS}],
    }
    binding = {"policyName": "no-templates", "validationActions": ["Deny"]}
    call = stage.plane.server.call
    for kind, content in (("policies", spec), ("policybindings", binding)):
        call("POST", f"{_POLICIES}{kind}", {"metadata": {"name": "no-templates"}, "spec": content})
    try:
        stage.eventually("the policy is in force", partial(_denies, stage))
        yield
    finally:
        for kind in ("policybindings", "policies"):
            call("DELETE", f"{_POLICIES}{kind}/no-templates")


def _denies(stage: Stage) -> bool:
    body = {"metadata": {"name": "try"}, "template": {"spec": {"containers": [{"name": "a", "image": "a"}]}}}
    try:
        stage.plane.server.call("POST", f"/api/v1/namespaces/{gangs.TEAM}/podtemplates?dryRun=All", body)
    except urllib.error.HTTPError as denied:
        return denied.code == 422
    return False


def _refusal(stage: Stage, gang: str) -> str:
    notes = _workload(stage, gang)["metadata"].get("annotations") or {}
    return str(notes.get(names.REFUSED_ANNOTATION, ""))


def _holds_nothing(stage: Stage, gang: str) -> bool:
    made = (*gangs.requests(stage.plane), *gangs.templates(stage.plane))
    return not made and not gangs.holds(_workload(stage, gang), "QuotaReserved")


def _is_told(stage: Stage, gang: str, reason: str, said: str) -> bool:
    """As an Event on the Workload."""
    events = items(stage.plane.server, f"/apis/events.k8s.io/v1/namespaces/{gangs.TEAM}/events")
    about = (each for each in events if each["regarding"]["name"] == gang and each["reason"] == reason)
    return any(said in each["note"] for each in about)


def _workload(stage: Stage, gang: str) -> dict[str, Any]:
    return gangs.read(stage.plane, gang) or {"metadata": {}}
