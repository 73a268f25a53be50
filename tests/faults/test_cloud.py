"""The cloud breaks its word: it fails, forgets, revokes, never answers. No gang starts half for it."""

from __future__ import annotations

from functools import partial

from tests.faults import gangs
from tests.faults.plane import PROVISIONING
from tests.faults.stage import Stage


def test_silence_ends_at_the_deadline_and_the_gang_tries_again(stage: Stage) -> None:
    """Accepted and then nothing, for ever: our own clock ends it, or the quota would be held for ever."""
    stage.plane.fault("silent", pool="l4", kind="silence", count=1)
    stage.plane.policy(queueTimeout="3s")
    try:
        with stage.manager().kept():
            gang = stage.submit()
            stage.runs(gang)
            stage.end(gang)
            stage.judge()
    finally:
        stage.plane.policy()


def test_fewer_nodes_than_promised_are_never_ready_and_everything_is_released(stage: Stage) -> None:
    stage.plane.fault("partial", pool="h100", kind="partial", missing=1, count=1)
    stage.plane.policy(provisionTimeout="4s")
    try:
        with stage.manager().kept():
            gang = stage.submit()
            stage.eventually(
                "it tells how many are missing", partial(_says, stage, gang, "1 of 2 h100 nodes")
            )
            stage.runs(gang)
            stage.end(gang)
            stage.judge()
    finally:
        stage.plane.policy()


def test_a_lease_revoked_under_a_running_gang_makes_it_queue_again(stage: Stage) -> None:
    with stage.manager().kept():
        gang = stage.submit()
        stage.runs(gang)
        before = _names(stage)
        stage.plane.fault("revoked", pool="l4", kind="revoke", count=1)
        stage.eventually("it has asked anew", lambda: _names(stage) and not _names(stage) & before)
        stage.runs(gang)
        stage.end(gang)
        stage.judge()


def test_a_request_that_somebody_deletes_is_made_again_while_it_is_needed(stage: Stage) -> None:
    """In every phase: asked, accepted, provisioned. A gang that runs has no more use for it."""
    with stage.manager().kept():
        gang = stage.submit()
        for _ in range(3):
            for name in stage.eventually("it has asked", partial(_names, stage)):
                stage.plane.server.call(
                    "DELETE", f"{PROVISIONING}/namespaces/{gangs.TEAM}/provisioningrequests/{name}"
                )
        stage.eventually("it runs", partial(gangs.is_admitted, stage.plane, gang))
        stage.end(gang)
        stage.judge()


def _names(stage: Stage) -> set[str]:
    return {each["metadata"]["name"] for each in gangs.requests(stage.plane)}


def _says(stage: Stage, gang: str, words: str) -> bool:
    return words in str(gangs.entry(gangs.read(stage.plane, gang)).get("message"))
