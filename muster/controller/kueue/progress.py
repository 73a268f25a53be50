"""Texts on a Workload that backs off or was refused.

The texts are the model's, so that the preview shows the same; those of a gang that is being provisioned are
muster.controller.gangs.progress.
"""

from muster.controller.gangs.retry import RetryHistory
from muster.model import waiting


def format_refusal(history: RetryHistory) -> str:
    """Of a gang that no further try can help."""
    return waiting.refused(history.refused)


def format_stop() -> str:
    """Of a gang that a person has stopped."""
    return waiting.stopped()


def format_backoff(history: RetryHistory) -> str:
    """Of a gang that waits outside the quota."""
    return waiting.outside(last_failure=history.last_failure, tries=history.tries, retry_at=history.retry_at)
