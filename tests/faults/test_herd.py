"""A pool runs dry for everybody at once: those who failed together come back apart."""

from __future__ import annotations

import time
from datetime import datetime

from model import names
from tests.faults import gangs
from tests.faults.stage import Stage

_HERD = 20  # as many as the queue has quota for
_BURST = 6  # tokens of six seconds
_AHEAD = 60


def test_gangs_that_fail_together_come_back_one_after_another(stage: Stage) -> None:
    """Each has a pause of its own, and when the pauses are over the same clock lets one in a second."""
    stage.plane.policy(retry={"base": "30s", "max": "30s", "perMinute": 60})
    manager = stage.manager(clocks=(0.0, _AHEAD))
    try:
        with manager.kept():
            stage.plane.fault("out", pool="l4", kind="stock-out", count=_HERD)
            herd = [stage.submit(pieces={"main": ("l4", 1)}) for _ in range(_HERD)]
            stage.eventually(
                "all wait outside the quota", lambda: all(_back_at(stage, each) for each in herd)
            )
            assert len({_back_at(stage, each) for each in herd}) > _HERD // 4
            jumped = time.monotonic()
            manager.jump()
            stage.eventually("all are back", lambda: not any(_back_at(stage, each) for each in herd))
            # Only a lower bound: a busy machine takes longer.
            assert time.monotonic() - jumped > _HERD - 1 - _BURST, "they came back as one"
            stage.eventually("all run", lambda: all(gangs.is_admitted(stage.plane, each) for each in herd))
            stage.end(*herd)
            stage.judge()
    finally:
        stage.plane.policy()
    assert manager.exits == []


def _back_at(stage: Stage, gang: str) -> datetime | None:
    """When it tries again; None while it is not outside the quota."""
    workload = gangs.read(stage.plane, gang) or {"metadata": {}}
    noted = (workload["metadata"].get("annotations") or {}).get(names.RETRY_AT_ANNOTATION)
    return datetime.fromisoformat(noted) if noted else None
