"""Plays a recording in both stacks at the same time, each in a process of its own."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from muster.errors import MusterError
from muster.model.kueue.tree import to_tree
from muster.model.prices import BUILT_IN
from muster.model.quantities import many
from muster.model.stack import Scheduler, Stack
from muster.preview.compare.replay import MonthlyBill, Replay, ReplayDiff
from muster.preview.replay.kai_side import KaiDecider
from muster.preview.whatif import trees
from muster.render import kueue
from muster.replay.assumptions import AS_RECORDED, Assumptions
from muster.replay.figures import Figures, Played, devices, to_figures
from muster.replay.kai_player import ensure_kai_player
from muster.replay.player import Playback, PlayerPool, ensure_player
from muster.replay.queues import Queues
from muster.replay.recording import Recording
from muster.replay.side import Decider, KueueDecider, Subject
from muster.usage.inputs import rates_of, to_quotas, to_terms
from muster.usage.ledger import Hold, Window, book

MONTH_SECONDS: Final = 30 * 86_400.0

# The queues that a stack renders, for the player.


def queues_of(stack: Stack) -> Queues:
    """Of a stack with Kueue."""
    return Queues(
        objects=[manifest for batch in trees.manifest_batches(stack) for _, manifest in batch],
        config=kueue.deciding_config(stack),
        tree=to_tree(stack),
        teams=stack.teams_by_namespace(),
        priorities={each.name: each.value for each in stack.priorities},
        pools=stack.pools,
    )


# The scheduler that plays a stack's jobs, and its program.


def decider_of(stack: Stack) -> Decider:
    return KaiDecider(stack) if stack.scheduler is Scheduler.KAI else KueueDecider(queues_of(stack))


def ensure_player_of(scheduler: Scheduler) -> Path:
    """The program that plays it; it is built the first time."""
    return ensure_kai_player() if scheduler is Scheduler.KAI else ensure_player()


Programs = Callable[[Scheduler], Path]
"""The player of a scheduler; it is built the first time."""


def replay(recording: Recording, *, programs: Programs, assumptions: Assumptions = AS_RECORDED) -> Replay:
    return partial(_replay, recording, programs=programs, assumptions=assumptions)


def _replay(
    recording: Recording, base: Stack, head: Stack, *, programs: Programs, assumptions: Assumptions
) -> ReplayDiff:
    if base.scheduler is not head.scheduler:
        raise MusterError(
            f"--replay compares quotas under one scheduler, and base has {base.scheduler} where head has "
            f"{head.scheduler}.",
            fix="leave --replay out for this stack.",
        )
    sides = [decider_of(stack).side(recording, assumptions) for stack in (base, head)]
    played = _play(sides, programs(base.scheduler))
    return compare(recording, (base, head), sides, played, assumptions)


def compare(
    recording: Recording,
    stacks: tuple[Stack, Stack],
    sides: Sequence[Subject],
    played: tuple[Playback, Playback],
    assumptions: Assumptions,
) -> ReplayDiff:
    """What was played in both stacks, base before head."""
    (base, head), (before, after) = stacks, played
    # Both curves end where the later of both has run out of work.
    until = max(before.end, after.end)
    # They begin with the recording: one job may be weeks older than it.
    first = min((job.arrival for side in sides for job in side.jobs), default=0.0)
    start = int(max(recording.header.start, first))
    return ReplayDiff(
        start=recording.header.start,
        end=recording.header.end,
        removed=frozenset(_team_names(base) - _team_names(head)),
        played=max(len(side.jobs) for side in sides),
        base=_figures(sides[0], before, start=start, until=until),
        head=_figures(sides[1], after, start=start, until=until),
        unplayed=tuple(_unplayed(*sides)),
        assumptions=(*assumptions.sentences, *dict.fromkeys((*sides[0].notes, *sides[1].notes))),
        gaps=recording.header.left_out,
        bills=(
            bill_by_team(base, sides[0].jobs, before, start=start, until=until),
            bill_by_team(head, sides[1].jobs, after, start=start, until=until),
        ),
    )


def bill_by_team(
    stack: Stack, jobs: Sequence[Played], played: Playback, *, start: float, until: float
) -> Mapping[str, MonthlyBill]:
    """What `muster usage` would bill for what was played, scaled to 30 days. Nodes are not played, so only
    hours in which jobs run are in it.
    """
    terms, pools = to_terms(stack), {pool.flavor: pool.name for pool in stack.pools}
    holds = [
        Hold(
            job=job.label,
            team=job.team,
            queue=terms.queues.get(job.queue, ""),
            pool=pools.get(flavor, flavor),
            gpus=devices(amounts),
            reserved=run.begin,
            admitted=run.begin,
            ended=until if run.end is None else run.end,
            is_lost=run.is_evicted,
        )
        for job in jobs
        for run in played.runs[job.label]
        for flavor, amounts in run.usage.items()
        if run.begin is not None and devices(amounts)
    ]
    rates, scale = rates_of(stack, BUILT_IN), MONTH_SECONDS / max(until - start, 1)
    hours: defaultdict[str, float] = defaultdict(float)
    costs: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for entry in book(holds, (), to_quotas(stack), Window(start=start, end=until)).entries:
        if entry.hold is not None:
            team = entry.hold.team
            hours[team] += entry.hours * scale
            if (rate := rates.get(entry.pool)) is not None:
                costs[team][rate.price.currency] += entry.hours * scale * rate.hourly
    budgets = stack.budgets.teams
    return {
        team: MonthlyBill(hours=hours[team], costs=dict(costs[team]), budget=budgets.get(team))
        for team in sorted({job.team for job in jobs})
    }


def _figures(side: Subject, played: Playback, *, start: int, until: float) -> Figures:
    return to_figures(side.jobs, played, side.quotas, gpus=side.gpus, start=start, until=until)


def _team_names(stack: Stack) -> set[str]:
    return {team.name for _, team in stack.teams()}


def _play(sides: list[Subject], program: Path) -> tuple[Playback, Playback]:
    """Equal sides are played once."""
    base, head = sides
    if base == head:
        played = base.play(program)
        return played, played
    with PlayerPool(2) as pool:
        playing = [pool.submit(side.play, program) for side in sides]
        return playing[0].result(), playing[1].result()


def _unplayed(base: Subject, head: Subject) -> Iterator[str]:
    for reason in sorted(base.left_out.keys() | head.left_out.keys()):
        before, after = base.left_out.get(reason, 0), head.left_out.get(reason, 0)
        where = (
            f"{many(after, 'job')}"
            if before == after
            else f"{many(before, 'job')} in base and {after} in head"
        )
        yield f"{where} {reason}"
