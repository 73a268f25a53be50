"""What a user reads on a Workload that waits outside the quota or has been refused.

Decides those words; what a gathering gang says is controller.gangs.progress.
"""

from typing import Final

from controller.gangs.progress import clock
from controller.gangs.retry import History

OUTSIDE: Final = "released everything"


def refused(past: History) -> str:
    """Of a gang that no further try can help."""
    fix = "change the job, or set spec.active of its Workload to true to try again"
    return f"refused: {past.refused}. Fix: {fix}"


def outside(past: History) -> str:
    """Of a gang that waits outside the quota."""
    when = f" at {clock(past.retry_at)}" if past.retry_at else ""
    why = f" ({past.last_failure})" if past.last_failure else ""
    return f"{OUTSIDE}{why}; holds no quota; try {past.tries + 1}{when}"
