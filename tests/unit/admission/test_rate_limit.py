"""Gangs come back as a stream, whatever number of them failed together."""

from datetime import timedelta
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.controller.gangs.rate_limit import BURST, TOKEN_EXPIRY, RetryLimiter
from muster.controller.kube.resource import Key
from tests.length import examples


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def gang(number: int) -> Key:
    return Key("team-a", f"gang-{number}")


@settings(deadline=None, max_examples=examples(50))
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


def test_a_token_that_its_gang_does_not_come_for_expires() -> None:
    clock = Clock()
    pace = RetryLimiter(clock)
    pace.wait(gang(0), per_minute=60)
    clock.now += 2 * TOKEN_EXPIRY
    pace.wait(gang(1), per_minute=60)
    assert list(pace._places) == [gang(1)]
    assert [key for lane in pace._lanes.values() for _, key in lane] == [gang(1)]


def test_gangs_after_one_that_gives_up_come_earlier() -> None:
    pace = RetryLimiter(Clock())
    waits = [pace.wait(gang(number), per_minute=60) for number in range(20)]
    assert pace.release(gang(12)) is None, "those before it come when they expect to"
    assert pace.wait(gang(11), per_minute=60) == waits[11]
    assert pace.wait(gang(13), per_minute=60) == waits[12]
    assert pace.wait(gang(20), per_minute=60) == waits[19]


def test_a_gang_whose_token_comes_earlier_than_it_expects_is_reconciled() -> None:
    clock = Clock()
    pace = RetryLimiter(clock)
    waits = [pace.wait(gang(number), per_minute=60) for number in range(20)]
    pace.release(gang(8))
    for number in range(7):
        assert pace.consume(gang(number)) is None, "the one after it comes when it expects to"
    assert pace.consume(gang(7)) == gang(9)
    assert pace.wait(gang(9), per_minute=60) == waits[8]


# Tenants


def other(number: int) -> Key:
    return Key("team-b", f"gang-{number}")


def test_nine_thousand_gangs_of_one_tenant_delay_those_of_another_by_a_token_each() -> None:
    pace = RetryLimiter(Clock())
    for number in range(9000):
        last = pace.wait(gang(number), per_minute=300)
    assert last > timedelta(minutes=29)
    waits = [pace.wait(other(number), per_minute=300) for number in range(100)]
    assert waits[0] == timedelta(0)
    assert waits[-1] <= timedelta(seconds=200 * 60 / 300)
    assert pace.wait(gang(8999), per_minute=300) - last == timedelta(seconds=100 * 60 / 300)


@settings(deadline=None, max_examples=examples(30))
@given(st.lists(st.integers(1, 60), min_size=2, max_size=5), st.integers(1, 600))
def test_namespaces_take_turns_while_each_has_a_gang_that_waits(sizes: list[int], per_minute: int) -> None:
    clock = Clock()
    pace = RetryLimiter(clock)
    waiting = {Key(f"team-{space}", f"gang-{n}") for space, size in enumerate(sizes) for n in range(size)}
    for key in sorted(waiting):
        pace.wait(key, per_minute=per_minute)
    promised = {key: pace.wait(key, per_minute=per_minute).total_seconds() for key in sorted(waiting)}
    begun: list[str] = []
    while waiting:
        waits = {key: pace.wait(key, per_minute=per_minute) for key in sorted(waiting)}
        due = min(waits, key=lambda key: (pace._places[key].expected, key))
        clock.now += waits[due].total_seconds()
        assert clock.now - Clock.now == pytest.approx(promised[due], abs=0.01)
        pace.consume(due)
        waiting.discard(due)
        begun.append(due.namespace)
    fewest = min(sizes)
    counts = [begun[: fewest * len(sizes)].count(f"team-{space}") for space in range(len(sizes))]
    assert counts == [fewest] * len(sizes)


def test_when_most_tokens_are_released_the_rest_retry_at_once() -> None:
    clock = Clock()
    pace = RetryLimiter(clock)
    for number in range(1000):
        pace.wait(gang(number), per_minute=60)
    for number in range(995):
        pace.release(gang(number))
    assert not any(pace.wait(gang(number), per_minute=60) for number in range(995, 1000))


def test_places_that_were_saved_up_for_a_gang_that_does_not_come_make_no_wave() -> None:
    clock = Clock()
    pace = RetryLimiter(clock)
    pace.wait(gang(0), per_minute=60)
    clock.now += TOKEN_EXPIRY / 2
    waits = [pace.wait(gang(number), per_minute=60) for number in range(1, 30)]
    assert sum(not wait for wait in waits) <= BURST.total_seconds() + 1


def test_a_gang_without_a_token_releases_none() -> None:
    pace = RetryLimiter(Clock())
    pace.wait(gang(0), per_minute=60)
    pace.consume(gang(0))
    pace.consume(gang(0))
    assert pace.release(gang(0)) is None


def test_without_a_limit_no_gang_waits() -> None:
    pace = RetryLimiter(Clock())
    assert not any(pace.wait(gang(number), per_minute=0) for number in range(1000))
