"""Carries out `muster what-if`: lets the scheduler of both sides decide over the same work.

Apart from the command, because its imports take longer than printing `--help` may.
"""

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from muster.cli.output import note, progress
from muster.live.snapshot import Snapshot
from muster.local import envtest
from muster.model.stack import Scheduler, Stack
from muster.preview.document import Report
from muster.preview.whatif import kai
from muster.preview.whatif import report as comparison
from muster.preview.whatif.both import OnProgress, simulate_both
from muster.preview.whatif.player import Player
from muster.preview.whatif.scenario import Clock, Outcome, Scenario
from muster.preview.whatif.simulate import TemporaryCluster
from muster.replay.kai_player import ensure_kai_player
from muster.replay.player import UnplayableError, ensure_player


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The work and both sides. `durations` are seconds by namespace, empty where jobs never end."""

    base: Stack
    head: Stack
    work: Snapshot
    durations: Mapping[str, float]
    compression: float
    limit: float


def replay(name: str, asked: Replay) -> tuple[Report, object, bool]:
    """The report, its JSON, and whether the scheduler decided everything within the time limit of a side."""
    if Scheduler.KAI in (asked.base.scheduler, asked.head.scheduler):
        return _replay_kai(name, asked)
    found = _simulate(name, asked)
    is_settled = found.base.is_settled and found.head.is_settled
    return comparison.to_report(found), comparison.to_json(found), is_settled


def _replay_kai(name: str, asked: Replay) -> tuple[Report, object, bool]:
    if why := kai.why_undecided(asked.base, asked.head, asked.work):
        return _undecided(name, asked, why)
    try:
        with progress():
            program = ensure_kai_player()
        decide = partial(kai.simulate, snapshot=asked.work, program=program, seconds=asked.limit)
        with ThreadPoolExecutor() as sides:
            before, after = sides.map(decide, (asked.base, asked.head))
    except UnplayableError as error:
        return _undecided(name, asked, f"{error.why[0].upper()}{error.why[1:]}.")
    found = comparison.Comparison(
        name=name,
        base=before,
        head=after,
        base_stack=asked.base,
        head_stack=asked.head,
        scheduler=Scheduler.KAI,
    )
    is_settled = before.is_settled and after.is_settled
    return kai.to_report(found, asked.work), kai.to_json(found, asked.work), is_settled


def _undecided(name: str, asked: Replay, why: str) -> tuple[Report, object, bool]:
    sides = name, asked.base, asked.head, asked.work
    return kai.undecided_report(*sides, why=why), kai.undecided_json(*sides, why=why), True


def _simulate(name: str, asked: Replay) -> comparison.Comparison:
    begun = time.monotonic()

    def say(side: str, what: str) -> None:
        note(f"{time.monotonic() - begun:5.0f} s  {side}: {what}")

    (before, after), is_compressed = _outcomes(asked, say)
    say("both", "decided")
    return comparison.Comparison(
        name=name,
        base=before,
        head=after,
        base_stack=asked.base,
        head_stack=asked.head,
        is_timed=bool(asked.durations),
        compression=asked.compression if asked.durations and is_compressed else None,
    )


def _outcomes(asked: Replay, say: OnProgress) -> tuple[tuple[Outcome, Outcome], bool]:
    """Both outcomes, and whether time was compressed: a control plane simulates what the player cannot
    play.
    """
    clock = Clock(asked.durations, asked.compression) if asked.durations else None
    scenario = Scenario(snapshot=asked.work, clock=clock, max_seconds=asked.limit)
    try:
        with progress():
            player = Player(ensure_player())
        with player.pool:
            return simulate_both(asked.base, asked.head, scenario, player, say), False
    except UnplayableError as error:
        say("both", f"a temporary control plane simulates this, because {error.why}")
    with progress():
        cluster = TemporaryCluster(envtest.ensure())
    return simulate_both(asked.base, asked.head, scenario, cluster, say), True
