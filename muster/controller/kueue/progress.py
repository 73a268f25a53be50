"""What a user reads on a Workload that waits outside the quota or has been refused.

The words are the model's, so that the preview says the same; what a gathering gang says is
muster.controller.gangs.progress.
"""

from muster.controller.gangs.retry import History
from muster.model import waiting


def refused(past: History) -> str:
    """Of a gang that no further try can help."""
    return waiting.refused(past.refused)


def outside(past: History) -> str:
    """Of a gang that waits outside the quota."""
    return waiting.outside(last_failure=past.last_failure, tries=past.tries, retry_at=past.retry_at)
