"""How queued Ray work may be upgraded: what the webhook fills in."""

from typing import Any

from tests.unit.admission.test_defaults import KAI, KUEUE, body, default, patched

Json = dict[str, Any]


def _service(kind: str | None) -> Json:
    found = body("rayservice", **{"kueue.x-k8s.io/queue-name": "gpus"})
    if kind:
        found["spec"]["upgradeStrategy"] = {"type": kind}
    return found


def test_a_service_that_says_nothing_gets_the_one_strategy_that_its_queue_counts() -> None:
    found = patched(_service(None), default(KUEUE, "rayservice", _service(None)))
    assert found["spec"]["upgradeStrategy"] == {"type": "None"}
    kai = patched(body("rayservice"), default(KAI, "rayservice", body("rayservice")))
    assert "upgradeStrategy" not in kai["spec"]
