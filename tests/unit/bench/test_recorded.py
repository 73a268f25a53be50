"""How well a playback agrees with its recording, and what of a recording decides it."""

from collections.abc import Mapping, Sequence

import pytest

from bench.recorded import agreement
from muster.model import names
from muster.model.stack import Scheduler
from muster.replay.player import Playback, PlayedRun
from muster.replay.recording import End, Header, Job, PodSet, Recording, Run


def _recording(jobs: Mapping[str, Sequence[Run]]) -> Recording:
    header = Header(scheduler=Scheduler.KUEUE, start=0.0, end=1000.0, source="cluster")
    pods = PodSet(name="p0", count=1, requests={names.GPU_RESOURCE: 1}, pools=("l4",))
    found = (
        Job(id=name, team="vision", created=0.0, pod_sets=(pods,), queue="default", runs=tuple(runs))
        for name, runs in jobs.items()
    )
    return Recording(header=header, jobs=tuple(found))


def _run(start: float, *, ended: float | None = None) -> Run:
    end = None if ended is None else End.FINISHED
    return Run(reserved=start, admitted=start, ended=ended, end=end)


def _played(starts: Mapping[str, Sequence[int]]) -> Playback:
    runs = {
        f"vision/{name}": tuple(PlayedRun(start=each, end=None, usage={}) for each in found)
        for name, found in starts.items()
    }
    return Playback(runs=runs, digest="", end=0, cycles=0, admissions=0, preemptions=0)


_RECORDED = {"a": [_run(10)], "b": [_run(20)], "c": [_run(20)], "d": [_run(40)]}


@pytest.mark.parametrize(
    ("starts", "order"),
    [
        ({"a": [10], "b": [20], "c": [20], "d": [40]}, 1.0),
        # What is recorded in one second has no order.
        ({"a": [11], "b": [25], "c": [21], "d": [40]}, 1.0),
        ({"a": [10], "b": [41], "c": [20], "d": [40]}, 4 / 5),
        ({"a": [10], "b": [20], "c": [20], "d": []}, 2 / 5),
        ({"a": [10, 90], "b": [20], "c": [20], "d": [40]}, 5 / 9),
    ],
)
def test_a_pair_of_starts_is_right_when_it_is_played_in_the_recorded_order(
    starts: dict[str, Sequence[int]], order: float
) -> None:
    assert agreement(_recording(_RECORDED), _played(starts)).order == pytest.approx(order)


def test_the_error_of_a_wait_is_a_share_of_the_recorded_one() -> None:
    found = agreement(_recording(_RECORDED), _played({"a": [11], "b": [20], "c": [24], "d": [40]}))
    assert [share for _, share in found.waits] == pytest.approx([0.1, 0.0, 0.2, 0.0])
    assert found.median_error == pytest.approx(0.05)
