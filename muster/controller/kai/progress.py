"""Texts on the leader of a batch and in Events.

Each follows from the batch's state alone, so it changes only when that does: a gang that waits costs no
writes.
"""

from collections.abc import Sequence

from muster.controller.gangs import progress as shared
from muster.controller.gangs.ending import format_ending
from muster.controller.gangs.objects import Pod
from muster.controller.gangs.retry import REFUSED, RetryHistory
from muster.controller.gangs.split import Gang

RELEASED = "released"
RESTARTED = "starts over: what was refused has changed"
BELOW_MINIMUM = "starts over: what KAI starts with has lost pods"


def format_queue_wait(shortfall: str, ending: Sequence[Pod]) -> str:
    """`ending`: pods that the queue may still hold."""
    return f"waits for its queue: {shortfall}" + (f"; {format_ending(ending)}" if ending else "")


def format_incomplete(missing: str) -> str:
    return f"waits until it has all {missing}"


def format_ending_pods(pods: Sequence[Pod]) -> str:
    return f"waits for its earlier pods: {format_ending(pods)}"


def format_unreadable(reason: str) -> str:
    return f"held back: {reason}"


def format_backoff(history: RetryHistory) -> str:
    """Of a gang that waits for its next try."""
    return shared.format_backoff(history, kept="holds no capacity")


def format_refusal(history: RetryHistory) -> str:
    """Of a gang that no further try can help."""
    fix = f"change its object or create it anew, or remove the annotation {REFUSED} from its pod to try again"
    return f"refused: {history.refused}. Fix: {fix}"


def format_preempting(taking: str | None) -> str:
    """Of a gang that passes for KAI to make room. `taking`: how, where that was just decided."""
    return f"{RELEASED}: KAI makes room for it" + (f", {taking}" if taking else "")


def format_ungated(gang: Gang) -> str:
    came = shared.format_provisioned(gang) if gang.request_specs else "nothing to provision"
    return f"{RELEASED}: {came}"
