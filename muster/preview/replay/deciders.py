"""The scheduler that plays a stack's jobs, and its program."""

from pathlib import Path

from muster.model.stack import Scheduler, Stack
from muster.preview.replay.kai_side import KaiDecider
from muster.preview.replay.queues import queues_of
from muster.replay.kai_player import ensure_kai_player
from muster.replay.player import ensure_player
from muster.replay.side import KueueDecider
from muster.replay.subject import Decider


def decider_of(stack: Stack) -> Decider:
    return KaiDecider(stack) if stack.scheduler is Scheduler.KAI else KueueDecider(queues_of(stack))


def ensure_player_of(scheduler: Scheduler) -> Path:
    """The program that plays it; it is built the first time."""
    return ensure_kai_player() if scheduler is Scheduler.KAI else ensure_player()
