"""The simple queue starts jobs by priority, then by age, past those that do not fit."""

from typing import Any

from bench.simple_queue import play
from muster.model import names
from muster.replay.player import Entry, World


def _entry(name: str, *, gpus: int, created: int, seconds: int = 100, **more: Any) -> Entry:
    container = {"resources": {"requests": {names.GPU_RESOURCE: str(gpus)}}}
    workload = {
        "metadata": {
            "namespace": "team",
            "name": name,
            "creationTimestamp": f"1970-01-01T00:{created // 60:02}:{created % 60:02}Z",
        },
        "spec": {
            "priority": more.pop("priority", 0),
            "podSets": [{"count": 1, "template": {"spec": {"containers": [container]}}}],
        },
        **({"status": {}} if more.pop("is_holding", False) else {}),
    }
    return Entry(workload=workload, seconds=seconds, **more)


def _starts(*entries: Entry, horizon: int = 0) -> dict[str, float | None]:
    played = play(World(objects=(), horizon=horizon), entries, gpus=4)
    return {label.partition("/")[2]: runs[0].start if runs else None for label, runs in played.runs.items()}


def test_the_highest_priority_starts_first_and_small_jobs_pass_large_ones() -> None:
    assert _starts(
        _entry("runs", gpus=3, created=0),
        _entry("large", gpus=4, created=10),
        _entry("small", gpus=1, created=20),
        _entry("urgent", gpus=4, created=30, priority=9),
    ) == {"runs": 0, "small": 20, "urgent": 120, "large": 220}


def test_a_job_that_holds_gpus_ends_after_what_is_left_of_it() -> None:
    assert _starts(
        _entry("holds", gpus=4, created=0, at=50, ran=70, is_holding=True),
        _entry("waits", gpus=4, created=10, at=50),
    ) == {"holds": 50, "waits": 80}


def test_nothing_starts_after_the_horizon() -> None:
    assert _starts(_entry("runs", gpus=4, created=0), _entry("waits", gpus=4, created=1), horizon=50) == {
        "runs": 0,
        "waits": None,
    }
