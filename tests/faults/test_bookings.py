"""Half of a gang is promised, the other half lets it wait: what is booked ends, goes, or is given back."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.faults import gangs, oracle
from tests.faults.stage import Stage


@pytest.mark.parametrize(
    ("kind", "said"), [("expire", "booking expired"), ("revoke", "capacity revoked")], ids=str
)
def test_what_was_promised_and_is_gone_before_the_gang_is_whole_is_asked_for_anew(
    stage: Stage, kind: str, said: str
) -> None:
    _comes_late(stage, "h100")
    with stage.manager().kept():
        gang = stage.submit()
        old = stage.eventually("half is promised", lambda: _promised(stage))
        stage.plane.fault("gone", pool="l4", kind=kind, count=1)
        stage.eventually("it is released", lambda: stage.released_for(gang))
        stage.plane.mend()
        stage.runs(gang)
        new = _asked(stage, count=2)
        assert not {_uid(each) for each in old} & {_uid(each) for each in new}, "all or none"
        stage.end(gang)
        stage.judge()
    assert any(said in each for each in stage.released_for(gang))


def test_what_comes_long_before_the_rest_is_given_back_and_the_rest_keeps_its_place(stage: Stage) -> None:
    _comes_late(stage, "h100")
    with stage.manager().kept():
        with _short_bookings(stage):
            gang = stage.submit()
            both = stage.eventually("both are asked for", lambda: _asked(stage, count=2))
            (early, late) = (_of(both, pool) for pool in ("l4", "h100"))
            (left,) = stage.eventually("the early one is given back", lambda: _asked(stage, count=1))
            assert _uid(left) == _uid(late)
            stage.waits(gang)
        stage.plane.mend()
        stage.eventually("it runs", lambda: gangs.is_admitted(stage.plane, gang))
        after = _asked(stage, count=2)
        assert _uid(_of(after, "h100")) == _uid(late), "who has waited does not stand in line anew"
        assert _uid(_of(after, "l4")) != _uid(early)
        assert not stage.released_for(gang), "nothing has failed"
        stage.end(gang)
        stage.judge()


def test_what_comes_before_a_rest_that_was_asked_for_last_is_released_with_it(stage: Stage) -> None:
    """The scarce piece stands and the other does not come: nobody pays for it longer than a booking."""
    _comes_late(stage, "l4")
    with stage.manager().kept():
        with _short_bookings(stage):
            gang = stage.submit()
            stage.eventually("it is released", lambda: stage.released_for(gang))
        stage.plane.mend()
        stage.completes(gang)
    assert any(each.startswith("bookingWindow of 4s has passed") for each in stage.released_for(gang))


def _comes_late(stage: Stage, pool: str) -> None:
    """Once the cloud is mended."""
    stage.plane.fault("late", pool=pool, kind="stock-out", mode="wait")


@contextmanager
def _short_bookings(stage: Stage) -> Iterator[None]:
    stage.plane.policy(bookingWindow="6s", bookingMargin="2s")
    try:
        yield
    finally:
        stage.plane.policy()


def _asked(stage: Stage, *, count: int) -> list[dict[str, Any]]:
    """Its requests when there are so many."""
    found = gangs.requests(stage.plane)
    return found if len(found) == count else []


def _promised(stage: Stage) -> list[dict[str, Any]]:
    """Both of its requests when one is as good as bought."""
    found = _asked(stage, count=2)
    return found if any(gangs.holds(each, "Provisioned") for each in found) else []


def _of(requests: list[dict[str, Any]], pool: str) -> dict[str, Any]:
    return next(each for each in requests if oracle.shape(each).pool == pool)


def _uid(request: dict[str, Any]) -> str:
    return str(request["metadata"]["uid"])
