"""The virtual clock goes on for longer than any run of virtual days."""

import asyncio

from tests.unit.controller_runtime.virtual import now, virtual

DAY = 86_400.0


def test_short_timers_fire_after_years() -> None:
    async def scenario() -> float:
        await asyncio.sleep(2_000 * DAY)
        for _ in range(100):
            await asyncio.sleep(0.1)
        return now()

    assert virtual(scenario()) > 2_000 * DAY + 9
