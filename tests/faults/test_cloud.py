"""The cloud breaks its word: it fails, forgets, revokes, never answers. No gang starts half for it."""

import re
from functools import partial
from typing import Any

from muster.model import names
from tests.faults import gangs, history, oracle
from tests.faults.plane import PROVISIONING
from tests.faults.stage import Stage


def test_silence_ends_at_the_deadline_and_the_gang_tries_again(stage: Stage) -> None:
    """Never so much as Accepted: our own clock ends it, or the quota would be held for ever."""
    _gives_up_and_runs(stage, {"pool": "l4", "kind": "silence"}, queueTimeout="3s")


def test_what_is_accepted_and_never_comes_ends_at_the_deadline_and_the_gang_tries_again(stage: Stage) -> None:
    """In the cloud's queue for ever, while the other half is promised already."""
    _gives_up_and_runs(stage, {"pool": "l4", "kind": "stock-out", "mode": "wait"}, provisionTimeout="4s")


def test_fewer_nodes_than_promised_are_never_ready_and_everything_is_released(stage: Stage) -> None:
    """Provisioned, says the cloud, and one node is missing: the oracle knows whether anybody believed it."""
    _gives_up_and_runs(stage, {"pool": "h100", "kind": "partial", "missing": 1}, provisionTimeout="4s")


def _gives_up_and_runs(stage: Stage, fault: dict[str, object], **clock: str) -> None:
    """A whole story whose first attempt meets the fault, and ends by a policy with this clock."""
    ((name, limit),) = clock.items()
    said = f"{name} of {limit} has passed"
    stage.plane.fault("once", count=1, **fault)
    try:
        with stage.manager().kept():
            gang = stage.submit()
            # A slow cloud would see the first attempt after its clock had ended it: the fault met the second.
            stage.eventually("the cloud breaks its word", lambda: stage.plane.has_met("once"))
            stage.plane.policy(**clock)
            stage.eventually(
                "it gives up", lambda: any(said in failure for failure in stage.released_for(gang))
            )
            # A slow machine could exceed the clock at every attempt.
            stage.plane.policy()
            stage.completes(gang)
    finally:
        stage.plane.policy()


def test_a_cloud_that_has_nothing_is_asked_until_the_deadline_and_once_a_try(stage: Stage) -> None:
    """Also when it only says so (kubernetes/autoscaler 9805): the tries are bounded, and a person may ask for
    more.
    """
    stage.plane.fault("out", pool="l4", kind="stock-out")
    try:
        with stage.manager().kept():
            gang = stage.submit()
            # Only now: how many tries there are in so many seconds is the machine's to say.
            stage.eventually("it tries again", lambda: _times_asked(stage, gang, "l4") > 1)
            stage.plane.policy(retry={"base": "1s", "max": "2s", "deadline": "6s"})
            said = stage.eventually("it is given up", partial(_refusal, stage, gang))
            assert "out of stock" in said
            stage.eventually("nothing is left", lambda: not gangs.requests(stage.plane))
            tries = re.search(r"gave up after (\d+) tries", said)
            assert tries, said
            assert 1 < int(tries[1]) == _times_asked(stage, gang, "l4")
            stage.plane.mend()
            gangs.patch(stage.plane, gang, {"spec": {"active": True}})
            stage.completes(gang)
    finally:
        stage.plane.policy()


def _refusal(stage: Stage, gang: str) -> str:
    workload = gangs.read(stage.plane, gang) or {"metadata": {}}
    return str((workload["metadata"].get("annotations") or {}).get(names.REFUSED_ANNOTATION, ""))


def _times_asked(stage: Stage, gang: str, pool: str) -> int:
    """How many requests for nodes of the pool there ever were."""
    etcd, uid = stage.plane.server.etcd, (gangs.read(stage.plane, gang) or {})["metadata"]["uid"]
    seen = history.changes(etcd, since=stage.began, until=history.revision(etcd))
    made = (each.after for each in seen if each.kind == "ProvisioningRequest" and each.before is None)
    asked = (each for each in made if each and oracle.owner(each) == uid)
    return sum(oracle.shape(each).pool == pool for each in asked)


def test_a_lease_revoked_under_a_running_gang_makes_it_queue_again(stage: Stage) -> None:
    with stage.manager().kept():
        gang = stage.submit()
        stage.runs(gang)
        before = _names(stage)
        stage.plane.fault("revoked", pool="l4", kind="revoke", count=1)
        stage.eventually("it has asked anew", lambda: _names(stage) and not _names(stage) & before)
        stage.completes(gang)


def test_a_request_that_somebody_deletes_is_made_again_while_it_is_needed(stage: Stage) -> None:
    """In every phase: asked, accepted, provisioned. Of the gang's requests the one for h100 is the first."""
    with stage.manager().kept():
        stage.plane.fault("phase", pool="*", kind="silence")
        gang = stage.submit()
        first = stage.eventually("it has asked", partial(_asked_for, stage, "h100"))
        assert not gangs.holds(first, "Accepted")
        again = _made_again(stage, first)
        # The same fault in other words: between two the cloud would do what it is asked.
        stage.plane.fault("phase", pool="*", kind="stock-out", mode="wait")
        accepted = stage.eventually("it is accepted", partial(_asked_for, stage, "h100", "Accepted"))
        assert _uid_of(accepted) == _uid_of(again)
        again = _made_again(stage, accepted)
        stage.plane.fault("phase", pool="l4", kind="stock-out", mode="wait")
        promised = stage.eventually("it is provisioned", partial(_asked_for, stage, "h100", "Provisioned"))
        assert _uid_of(promised) == _uid_of(again)
        again = _made_again(stage, promised)
        stage.plane.mend()
        stage.runs(gang)
        assert _uid_of(again) in gangs.uids(stage.plane)
        assert not stage.released_for(gang), "nothing has failed"
        stage.end(gang)
        stage.judge()


def _asked_for(stage: Stage, pool: str, phase: str = "") -> dict[str, Any] | None:
    """The request for nodes of the pool, once it is so far."""
    found = (each for each in _asked(stage) if oracle.shape(each).pool == pool)
    return next((each for each in found if not phase or gangs.holds(each, phase)), None)


def _made_again(stage: Stage, request: dict[str, Any]) -> dict[str, Any]:
    """Its successor, after somebody has deleted it."""
    _delete(stage, request["metadata"]["name"])

    def successor() -> dict[str, Any] | None:
        found = _asked_for(stage, oracle.shape(request).pool)
        return found if found and _uid_of(found) != _uid_of(request) else None

    return dict(stage.eventually("it is made again", successor))


def test_a_gang_that_runs_needs_its_requests_no_more(stage: Stage) -> None:
    """Its booking ends, and then somebody deletes what it was bought with: it stands on its nodes, and buys
    nothing.
    """
    with stage.manager().kept():
        gang = stage.submit()
        stage.runs(gang)
        before = _names(stage)
        stage.plane.fault("expire", pool="*", kind="expire", count=2)
        stage.eventually("its bookings are over", lambda: all(_is_expired(each) for each in _asked(stage)))
        _outlives_another(stage, gang)
        assert gangs.is_admitted(stage.plane, gang)
        assert _names(stage) == before
        for name in before:
            _delete(stage, name)
        _outlives_another(stage, gang)
        assert gangs.is_admitted(stage.plane, gang)
        assert not _names(stage), "what it has used is not asked for again"
        stage.end(gang)
        stage.judge()


def _outlives_another(stage: Stage, gang: str) -> None:
    """Another one's whole story: by its end the manager has looked at everything."""
    stage.plane.mend()
    other = stage.submit()
    stage.runs(other)
    gangs.end(stage.plane, other)
    uids = {_uid_of(each) for each in _asked(stage) if oracle.owner(each) != _uid(stage, gang)}
    stage.eventually("the other has left nothing", lambda: not uids & gangs.uids(stage.plane))


def _is_expired(request: dict[str, Any]) -> bool:
    return gangs.holds(request, "BookingExpired")


def _asked(stage: Stage) -> list[dict[str, Any]]:
    return gangs.requests(stage.plane)


def _uid(stage: Stage, gang: str) -> str:
    return str((gangs.read(stage.plane, gang) or {"metadata": {}})["metadata"].get("uid"))


def _uid_of(request: dict[str, Any]) -> str:
    return str(request["metadata"]["uid"])


def _delete(stage: Stage, name: str) -> None:
    path = f"{PROVISIONING}/namespaces/{gangs.TEAM}/provisioningrequests/{name}"
    stage.plane.server.call("DELETE", path)


def _names(stage: Stage) -> set[str]:
    return {each["metadata"]["name"] for each in _asked(stage)}
