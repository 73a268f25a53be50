"""A trial ends whole, cut short by its own limit of time, or broken: the last two are not the same."""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, cast

import pytest

from bench.gangs import cases
from bench.gangs.load import Load
from bench.gangs.stage import StageError
from bench.gangs.trial import _either


class Endless:
    """A load whose gangs are never all in."""

    async def submit(self, *, rate: float | None) -> None: ...

    async def over(self) -> None:
        await asyncio.Event().wait()


async def _broken_cloud() -> None:
    async def answer() -> None:
        raise TimeoutError("nobody answers")

    async with asyncio.TaskGroup() as group:
        group.create_task(answer())


async def _broken_watch() -> None:
    raise TimeoutError("nobody answers")


async def _idle() -> None:
    await asyncio.Event().wait()


async def _played(beside: Coroutine[Any, Any, None], *, most: float) -> None:
    case = replace(cases.burst(1), most=most)
    await _either(cast(Load, Endless()), case, [asyncio.create_task(beside)])


@pytest.mark.parametrize("broken", [_broken_cloud, _broken_watch])
async def test_a_dead_control_plane_is_not_reported_as_a_timeout(broken: Any) -> None:
    with pytest.raises(StageError, match=r"did not last.*nobody answers"):
        await _played(broken(), most=60.0)


async def test_a_trial_that_lasts_longer_than_its_case_is_cut_short() -> None:
    with pytest.raises(TimeoutError):
        await _played(_idle(), most=0.01)
