"""The options of a replay that say what it takes for granted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from muster.replay.assumptions import Assumptions

Function = TypeVar("Function", bound=Callable[..., Any])

_RECORDED: Final = "recorded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The values of the options, as they were written."""

    grace: str
    durations: str
    provisioning: tuple[str, ...]
    seed: int

    def parse(self) -> Assumptions:
        """AssumptionError where one cannot be read."""
        # What replays takes longer to import than `--help` may.
        from muster.replay.assumptions import Assumptions, parse_grace, parse_provisioning, parse_scale

        return Assumptions(
            grace=parse_grace(self.grace),
            scale=parse_scale(self.durations),
            provisioning=parse_provisioning(self.provisioning),
            seed=self.seed,
        )


_OPTIONS: Final = (
    click.option(
        "--grace",
        default="0",
        show_default=True,
        metavar="SECONDS",
        help="Replay: how long a preempted job takes to give its quota back. Seconds, or `recorded`.",
    ),
    click.option(
        "--durations",
        default=_RECORDED,
        show_default=True,
        metavar="HOW",
        help="Replay: how long jobs run. A factor such as x1.2, `drawn` from what jobs of the same "
        "team and priority took, or `recorded`.",
    ),
    click.option(
        "--provisioning",
        multiple=True,
        metavar="POOL=TIME",
        help="Replay: how long nodes of a pool take after the reservation of quota, such as h100=8m, "
        "or h100=recorded to draw from the recording. May be repeated. Default: no time.",
    ),
    click.option(
        "--seed",
        type=int,
        default=0,
        show_default=True,
        metavar="N",
        help="Seed of the replay's random draws: equal seeds give equal answers.",
    ),
)


def assumption_options(function: Function) -> Function:
    """--grace, --durations, --provisioning and --seed."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function
