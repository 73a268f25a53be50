"""The job that a forecast is asked for is found among those that wait, or the answer names them."""

import pytest

from muster.errors import MusterError
from muster.replay.forecast import find_waiting
from muster.replay.moment import Moment
from muster.replay.recording import Job

_FIRST, _SECOND = (
    Job(id=name, team="vision", queue="default", created=0.0, pod_sets=()) for name in ("1", "2")
)


def test_a_job_that_does_not_wait_is_answered_with_those_that_do() -> None:
    moment = Moment(at=0.0, running=(), waiting=(_FIRST, _SECOND), past=())
    assert find_waiting(moment, "vision/2") is _SECOND
    with pytest.raises(MusterError, match=r"Fix: name one of the 2 that do, such as vision/1 .*, vision/2 "):
        find_waiting(moment, "vision/3")


def test_where_no_job_waits_another_moment_is_proposed() -> None:
    with pytest.raises(MusterError, match=r"no job waits at that moment\. Fix: with --replay, .* --at\."):
        find_waiting(Moment(at=0.0, running=(), waiting=(), past=()), "vision/3")
