"""Our check state on a Workload, written only when it changes."""

from muster.controller.kueue.actions import SetCheckState, State
from muster.controller.kueue.objects import PodSetUpdate
from muster.controller.kueue.snapshot import WorkloadSnapshot


def set_pending(snapshot: WorkloadSnapshot, message: str) -> tuple[SetCheckState, ...]:
    """Pending, with these words, where Kueue has put our entry."""
    return set_check_state(snapshot, State.PENDING, message) if snapshot.check_state else ()


def set_check_state(
    snapshot: WorkloadSnapshot, state: State, message: str, *, updates: tuple[PodSetUpdate, ...] = ()
) -> tuple[SetCheckState, ...]:
    current = snapshot.check_state
    if current and (current.state, current.message, current.pod_set_updates) == (state, message, updates):
        return ()
    return (SetCheckState(state=state, message=message, updates=updates),)
