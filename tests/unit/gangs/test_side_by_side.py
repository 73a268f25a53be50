"""What a gang writes once for each of its pods is written side by side."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

import pytest

from muster.controller.kube.parallel import AT_ONCE, side_by_side


@dataclass
class Calls:
    """How many were under way at a time."""

    now: int = 0
    peak: int = 0
    done: int = 0

    async def one(self, *, fails: Exception | None = None) -> None:
        self.now += 1
        self.peak = max(self.peak, self.now)
        for _ in range(AT_ONCE):
            await asyncio.sleep(0)
        self.now -= 1
        if fails is not None:
            raise fails
        self.done += 1


def test_as_many_as_allowed_are_under_way_and_no_more() -> None:
    calls = Calls()
    asyncio.run(side_by_side(calls.one() for _ in range(3 * AT_ONCE)))
    assert (calls.peak, calls.done) == (AT_ONCE, 3 * AT_ONCE)


def test_the_first_failure_is_raised_as_it_is_and_nothing_more_begins(
    recwarn: pytest.WarningsRecorder,
) -> None:
    calls, refused = Calls(), LookupError("refused")

    def listed() -> list[Coroutine[Any, Any, None]]:
        return [calls.one(fails=refused), *(calls.one() for _ in range(3 * AT_ONCE))]

    with pytest.raises(LookupError) as raised:
        asyncio.run(side_by_side(listed()))
    assert raised.value is refused
    assert calls.done < 3 * AT_ONCE
    assert not recwarn.list, "no call is forgotten"
