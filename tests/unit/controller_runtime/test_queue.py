"""The work queue's promises, on virtual time."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from muster.controller.kube.resource import Key
from muster.controller.runtime.metrics import Metrics
from muster.controller.runtime.queue import BACKOFF_CAP, EAGER_PAUSE, QueueClosed, WorkQueue
from tests.length import examples
from tests.unit.controller_runtime.virtual import now, on_virtual_time, settle, virtual


def queue() -> WorkQueue[str]:
    return WorkQueue("q", metrics=Metrics(CollectorRegistry()), jitter=lambda: 0.5)


@on_virtual_time
async def test_a_key_added_many_times_is_taken_once() -> None:
    keys = queue()
    for _ in range(5):
        keys.add("a")
    assert await keys.take() == "a"
    assert len(keys) == 0


@on_virtual_time
async def test_a_key_added_while_worked_on_comes_back_after_done_and_not_before() -> None:
    keys = queue()
    keys.add("a")
    await keys.take()
    keys.add("a")
    keys.add("a")
    second = asyncio.ensure_future(keys.take())
    await settle()
    assert not second.done()
    keys.done("a")
    assert await second == "a"
    keys.done("a")
    assert keys.idle


@on_virtual_time
async def test_the_earliest_of_several_times_wins() -> None:
    keys = queue()
    keys.add_after("a", 30)
    keys.add_after("a", 5)
    keys.add_after("a", 60)
    await keys.take()
    first = now()
    keys.done("a")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1000):
            await keys.take()
    assert [first] == [5]


@on_virtual_time
async def test_an_added_key_forgets_the_time_it_waited_for() -> None:
    keys = queue()
    keys.add_after("a", 30)
    keys.add("a")
    assert await keys.take() == "a"
    keys.done("a")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(100):
            await keys.take()


@on_virtual_time
async def test_backoff_doubles_to_the_cap_and_success_resets_it() -> None:
    keys = queue()
    delays = []
    for _ in range(15):
        delays.append(keys.add_failed("a"))
        assert await keys.take() == "a"
        keys.done("a")
    assert delays[:4] == pytest.approx([0.1, 0.2, 0.4, 0.8])
    assert delays[-1] == BACKOFF_CAP
    keys.forget("a")
    assert keys.add_failed("a") == pytest.approx(0.1)


@on_virtual_time
async def test_a_pause_that_the_server_asked_for_is_the_least_backoff() -> None:
    keys = queue()
    keys.add_failed("a", at_least=7)
    await keys.take()
    assert now() == 7


@on_virtual_time
async def test_news_cannot_turn_a_key_that_keeps_failing_into_a_busy_loop() -> None:
    keys = queue()
    for _ in range(12):
        keys.add_failed("a")
        await keys.take()
        keys.done("a")
    keys.add_failed("a")
    started = now()
    keys.add("a")
    keys.add("a")
    await keys.take()
    assert now() - started == pytest.approx(EAGER_PAUSE)


async def begun(keys: WorkQueue[str], *, failures: int = 0) -> None:
    """A key that has failed so often in a row is being worked on again."""
    keys.add("a")
    for _ in range(failures):
        await keys.take()
        keys.add_failed("a")
        keys.done("a")
    await keys.take()


async def next_begins(keys: WorkQueue[str]) -> float:
    """Seconds until the key is taken again."""
    since = now()
    await keys.take()
    return now() - since


@on_virtual_time
async def test_news_cuts_the_backoff_of_the_first_failures_short() -> None:
    keys = queue()
    await begun(keys, failures=4)
    keys.add_failed("a")
    keys.done("a")
    keys.add("a")
    assert [await next_begins(keys)] == [0]


@on_virtual_time
async def test_no_news_shortens_a_pause_that_the_server_asked_for() -> None:
    keys = queue()
    await begun(keys)
    keys.add_failed("a", at_least=30)
    keys.done("a")
    keys.add("a")
    keys.add_after("a", 1)
    waited = await next_begins(keys)
    keys.add("a")
    delay = keys.add_failed("a", at_least=20)
    keys.done("a")
    assert [waited, delay, await next_begins(keys)] == pytest.approx([30, 20, 20])


@pytest.mark.parametrize(("failures", "pause"), [(1, 0.0), (12, EAGER_PAUSE)])
@on_virtual_time
async def test_news_during_the_work_that_fails_shortens_the_backoff_by_the_same_rule(
    failures: int, pause: float
) -> None:
    keys = queue()
    await begun(keys, failures=failures)
    keys.add("a")
    delay = keys.add_failed("a")
    keys.done("a")
    assert [delay, await next_begins(keys)] == pytest.approx([pause, pause])


@on_virtual_time
async def test_success_ends_a_pause() -> None:
    keys = queue()
    await begun(keys)
    keys.add_failed("a", at_least=30)
    keys.forget("a")
    keys.done("a")
    keys.add("a")
    assert await next_begins(keys) == 0


@on_virtual_time
async def test_namespaces_take_turns() -> None:
    keys: WorkQueue[Key] = WorkQueue("q", metrics=Metrics(CollectorRegistry()))
    for number in range(100):
        keys.add(Key("crowd", str(number)))
    keys.add(Key("lone", "x"))
    assert "lone" in [(await keys.take()).namespace for _ in range(3)][:2]


@on_virtual_time
async def test_a_cancelled_taker_swallows_no_wake_up() -> None:
    keys = queue()
    first = asyncio.ensure_future(keys.take())
    second = asyncio.ensure_future(keys.take())
    await settle()
    keys.add("a")
    first.cancel()
    assert await asyncio.wait_for(second, 1) == "a"


@on_virtual_time
async def test_closing_wakes_every_taker_and_drops_waiting_times() -> None:
    keys = queue()
    takers = [asyncio.ensure_future(keys.take()) for _ in range(3)]
    keys.add_after("a", 5)
    await settle()
    keys.close()
    results = await asyncio.gather(*takers, return_exceptions=True)
    assert all(isinstance(result, QueueClosed) for result in results)


@on_virtual_time
async def test_stale_deadlines_do_not_pile_up() -> None:
    keys = queue()
    for number in range(5000):
        keys.add_after("a", 100_000 - number)
    assert len(keys._heap) < 200


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["add", "after", "fail", "forget", "sleep"]),
        st.sampled_from("abc"),
        st.floats(0.0, 50.0),
    ),
    max_size=40,
)


@settings(max_examples=examples(150), deadline=None)
@given(operations=OPERATIONS, workers=st.integers(1, 4), effort=st.floats(0.0, 20.0))
def test_no_key_is_lost_or_worked_on_twice_at_a_time(
    operations: list[tuple[str, str, float]], workers: int, effort: float
) -> None:
    """After every add, add_after or add_failed the key is worked on at least once more, and always by one
    worker.
    """

    async def scenario() -> None:
        keys = queue()
        requested: dict[str, float] = {}
        begun: dict[str, float] = {}
        busy: Counter[str] = Counter()

        async def work() -> None:
            while True:
                try:
                    key = await keys.take()
                except QueueClosed:
                    return
                busy[key] += 1
                assert busy[key] == 1, "two workers on one key"
                begun[key] = now()
                requested.pop(key, None)
                await asyncio.sleep(effort)
                busy[key] -= 1
                keys.done(key)

        team = [asyncio.ensure_future(work()) for _ in range(workers)]
        for operation, key, seconds in operations:
            if operation == "sleep":
                await asyncio.sleep(seconds)
            elif operation == "forget":
                keys.forget(key)
            else:
                requested[key] = now()
                if operation == "add":
                    keys.add(key)
                elif operation == "after":
                    keys.add_after(key, seconds)
                else:
                    keys.add_failed(key)
        await asyncio.sleep(10_000)
        assert not requested, f"never worked on: {requested}"
        assert keys.idle
        keys.close()
        await asyncio.gather(*team)

    virtual(scenario())
