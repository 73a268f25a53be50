"""A pool runs dry for everybody at once: those who failed together come back apart."""

import time
from datetime import datetime

from muster.model import names
from tests.faults import gangs
from tests.faults.stage import Stage

_HERD = 20  # as many as the queue has quota for
_BURST = 6  # tokens of six seconds
_PAUSE = "2m"  # nobody is back before the last has failed, however slow the machine
_AHEAD = 240  # past every pause, and less than a booking


def test_gangs_that_fail_together_come_back_one_after_another(stage: Stage) -> None:
    """Each has a pause of its own, and when the pauses are over the same clock lets one in a second."""
    stage.plane.policy(retry={"base": _PAUSE, "max": _PAUSE, "perMinute": 60})
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
            stage.eventually("all are back", lambda: not _woken(stage, herd))
            # Only a lower bound: a busy machine takes longer.
            assert time.monotonic() - jumped > _HERD - 1 - _BURST, "they came back as one"
            stage.eventually("all run", lambda: all(gangs.is_admitted(stage.plane, each) for each in herd))
            stage.end(*herd)
            stage.judge()
    finally:
        stage.plane.policy()
    assert manager.exits == []


def _woken(stage: Stage, herd: list[str]) -> list[str]:
    """Those that are still outside. A clock that jumps wakes nobody: somebody writes them, and their manager
    looks at the time.
    """
    outside = [each for each in herd if _back_at(stage, each)]
    for each in outside:
        gangs.patch(stage.plane, each, {"metadata": {"annotations": {"somebody": str(time.monotonic())}}})
    return outside


def _back_at(stage: Stage, gang: str) -> datetime | None:
    """When it tries again; None while it is not outside the quota."""
    workload = gangs.read(stage.plane, gang) or {"metadata": {}}
    noted = (workload["metadata"].get("annotations") or {}).get(names.RETRY_AT_ANNOTATION)
    return datetime.fromisoformat(noted) if noted else None
