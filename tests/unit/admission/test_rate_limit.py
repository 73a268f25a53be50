"""Gangs come back as a stream, whatever number of them failed together."""

from datetime import timedelta
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.controller.gangs.rate_limit import BURST, TOKEN_EXPIRY, RetryLimiter
from muster.controller.kube.resource import Key


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def gang(number: int) -> Key:
    return Key("team-a", f"gang-{number}")


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 200), st.integers(1, 600), st.lists(st.floats(0, 30), max_size=200), st.randoms())
def test_retries_never_exceed_the_rate_and_one_burst(
    gangs: int, per_minute: int, steps: list[float], chance: Random
) -> None:
    clock = Clock()
    pace, begun = RetryLimiter(clock), []
    waiting = [gang(number) for number in range(gangs)]
    for step in [*steps, 3600.0 * 4]:
        for key in list(waiting):
            if not pace.wait(key, per_minute=per_minute):
                pace.consume(key)
                waiting.remove(key)
                begun.append(clock.now)
            elif chance.random() < 0.1:
                pace.release(key)
                if chance.random() < 0.5:
                    waiting.remove(key)
        clock.now += step
    for count, end in enumerate(begun, start=1):
        allowed = (end - begun[0] + BURST.total_seconds()) * per_minute / 60 + 1
        assert count <= allowed + 1e-6


def test_tokens_are_given_in_order_and_once_per_gang() -> None:
    clock = Clock()
    pace = RetryLimiter(clock)
    waits = [pace.wait(gang(number), per_minute=60) for number in range(12)]
    assert waits == sorted(waits)
    assert waits[-1] == timedelta(seconds=12 - 1) - BURST
    assert [pace.wait(gang(number), per_minute=60) for number in range(12)] == waits
    clock.now += waits[-1].total_seconds()
    assert pace.wait(gang(11), per_minute=60) == timedelta(0)


def test_an_unused_token_expires() -> None:
    clock = Clock()
    pace = RetryLimiter(clock)
    pace.wait(gang(0), per_minute=60)
    clock.now += 2 * TOKEN_EXPIRY
    pace.wait(gang(1), per_minute=60)
    assert list(pace._given) == [gang(1)]
    assert [key for _, key in pace._row] == [gang(1)]


def test_a_released_token_goes_to_the_last_gang_and_that_ones_to_the_next_newcomer() -> None:
    clock = Clock()
    pace = RetryLimiter(clock)
    waits = [pace.wait(gang(number), per_minute=60) for number in range(20)]
    assert pace.release(gang(12)) == gang(19), "who is to be told"
    assert pace.wait(gang(19), per_minute=60) == waits[12]
    assert pace.wait(gang(20), per_minute=60) == waits[19]
    assert pace.release(gang(20)) is None, "nobody waits for a later one"
    assert pace.wait(gang(21), per_minute=60) == waits[19]
    others = [number for number in range(20) if number not in (12, 19)]
    assert [pace.wait(gang(number), per_minute=60) for number in others] == [waits[n] for n in others]


def test_when_most_tokens_are_released_the_rest_retry_at_once() -> None:
    clock = Clock()
    pace = RetryLimiter(clock)
    for number in range(1000):
        pace.wait(gang(number), per_minute=60)
    for number in range(995):
        pace.release(gang(number))
    assert not any(pace.wait(gang(number), per_minute=60) for number in range(995, 1000))


def test_a_due_token_is_not_passed_on() -> None:
    clock = Clock()
    pace = RetryLimiter(clock)
    waits = [pace.wait(gang(number), per_minute=60) for number in range(30)]
    clock.now += 10
    assert pace.release(gang(0)) is None
    assert pace.wait(gang(29), per_minute=60) == waits[29] - timedelta(seconds=10)
    assert pace.wait(gang(30), per_minute=60) == waits[29] - timedelta(seconds=9)


def test_a_token_that_is_given_back_after_later_ones_were_used_brings_none_of_those_back() -> None:
    pace = RetryLimiter(Clock())
    burst = [gang(number) for number in range(7)]
    assert not any(pace.wait(key, per_minute=60) for key in burst)
    for key in burst[1:]:
        pace.consume(key)
    assert pace.release(burst[0]) is None
    assert pace.wait(gang(7), per_minute=60) == timedelta(seconds=1)


def test_a_gang_without_a_token_releases_none() -> None:
    pace = RetryLimiter(Clock())
    pace.wait(gang(0), per_minute=60)
    pace.consume(gang(0))
    pace.consume(gang(0))
    assert pace.release(gang(0)) is None


def test_without_a_limit_no_gang_waits() -> None:
    pace = RetryLimiter(Clock())
    assert not any(pace.wait(gang(number), per_minute=0) for number in range(1000))
