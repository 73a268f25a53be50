"""Our entry on a Workload, written when it says something new."""

from muster.controller.kueue.actions import SetEntry, State
from muster.controller.kueue.objects import PodSetUpdate
from muster.controller.kueue.snapshot import Situation


def say(now_is: Situation, message: str) -> tuple[SetEntry, ...]:
    """Pending, with these words, where Kueue has put our entry."""
    return set_entry(now_is, State.PENDING, message) if now_is.entry else ()


def set_entry(
    now_is: Situation, state: State, message: str, *, updates: tuple[PodSetUpdate, ...] = ()
) -> tuple[SetEntry, ...]:
    entry = now_is.entry
    if entry and (entry.state, entry.message, entry.pod_set_updates) == (state, message, updates):
        return ()
    return (SetEntry(state=state, message=message, updates=updates),)
