"""What a user reads on the leader of a batch and in Events.

Decides the words, and that they change only when something has: a gang that waits costs no writes.
"""

from muster.controller.gangs.progress import stands
from muster.controller.gangs.retry import REFUSED, History
from muster.controller.gangs.split import Gang
from muster.model.waiting import clock

RELEASED = "released"
ANEW = "begins anew: what was refused has changed"
MINIMUM = "begins anew: what KAI starts with has lost pods"


def waits_for_room(shortage: str) -> str:
    return f"waits for its queue: {shortage}"


def incomplete(lacks: str) -> str:
    return f"waits for its pods: {lacks} exist"


def unreadable(reason: str) -> str:
    return f"held back: {reason}"


def outside(past: History) -> str:
    """Of a gang that waits for its next try."""
    when = f" at {clock(past.retry_at)}" if past.retry_at else ""
    why = f" ({past.last_failure})" if past.last_failure else ""
    return f"released everything{why}; holds no capacity; try {past.tries + 1}{when}"


def refused(past: History) -> str:
    """Of a gang that no further try can help."""
    fix = f"change the Ray object, or remove the annotation {REFUSED} from its pod to try again"
    return f"refused: {past.refused}. Fix: {fix}"


def passes(gang: Gang) -> str:
    return f"{RELEASED}: {stands(gang) if gang.asks else 'nothing to provision'}"
