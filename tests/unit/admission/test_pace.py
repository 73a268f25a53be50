"""Gangs come back as a stream, whatever number of them failed together."""

from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.gangs.pace import BURST, Pace


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 200), st.integers(1, 600), st.lists(st.floats(0, 30), max_size=200))
def test_never_more_begin_than_the_rate_and_one_burst_allow(
    gangs: int, per_minute: int, steps: list[float]
) -> None:
    clock = Clock()
    pace, begun = Pace(clock), []
    waiting = [f"gang-{number}" for number in range(gangs)]
    for step in [*steps, 3600.0 * 4]:
        for uid in list(waiting):
            if not pace.wait(uid, per_minute=per_minute):
                pace.taken(uid)
                waiting.remove(uid)
                begun.append(clock.now)
        clock.now += step
    for count, end in enumerate(begun, start=1):
        allowed = (end - begun[0] + BURST.total_seconds()) * per_minute / 60 + 1
        assert count <= allowed + 1e-6


def test_everybody_gets_a_token_in_the_order_of_asking_and_asking_again_costs_none() -> None:
    clock = Clock()
    pace = Pace(clock)
    waits = [pace.wait(f"gang-{number}", per_minute=60) for number in range(12)]
    assert waits == sorted(waits)
    assert waits[-1] == timedelta(seconds=12 - 1) - BURST
    assert [pace.wait(f"gang-{number}", per_minute=60) for number in range(12)] == waits
    clock.now += waits[-1].total_seconds()
    assert pace.wait("gang-11", per_minute=60) == timedelta(0)


def test_a_gang_that_never_takes_its_token_is_forgotten() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.wait("gone", per_minute=60)
    clock.now += 3600
    pace.wait("here", per_minute=60)
    assert list(pace._given) == ["here"]


def test_without_a_bound_nobody_waits() -> None:
    pace = Pace(Clock())
    assert not any(pace.wait(str(number), per_minute=0) for number in range(1000))
