"""Sentences about a waiting gang, which the controller writes and the preview repeats.

Responsible for the text about a gang that waits without quota or was refused, and for the format of a time
and a duration in it. Not responsible for what a gang is waiting for (muster.controller).
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from muster.model.durations import format_duration
from muster.model.names import STOP_ANNOTATION


def outside(
    *,
    last_failure: str,
    tries: int,
    retry_at: datetime | None,
    did: str = "released everything",
    kept: str = "holds no quota",
) -> str:
    """Of a gang that waits for its next try, outside the quota where nothing else is said."""
    when = f" at {clock(retry_at)}" if retry_at else ""
    why = f" ({last_failure})" if last_failure else ""
    return f"{did}{why}; {kept}; try {tries + 1}{when}"


def is_stopped(annotations: Mapping[str, str]) -> bool:
    """Whether a person keeps the gang of the Workload with these annotations outside the quota."""
    return annotations.get(STOP_ANNOTATION, "false") != "false"


def stopped() -> str:
    """Of a gang that a person keeps outside the quota."""
    return f"stopped by annotation {STOP_ANNOTATION}; holds no quota. Remove the annotation for the next try"


def how_to_stop(*, namespace: str, workload: str) -> str:
    """For a gang that waits outside the quota, where `spec.active` is false already."""
    return f"to stop it: kubectl -n {namespace} annotate workload {workload} {STOP_ANNOTATION}=true"


def refused(why: str) -> str:
    """Of a gang that no further try can help."""
    return f"refused: {why}. Fix: change the job, or set spec.active of its Workload to true to try again"


def clock(moment: datetime, *, far: bool = False) -> str:
    """The time of day, with the date where the next such time of day may not be meant."""
    day = f"{moment:%Y-%m-%d} " if far else ""
    return f"{day}{moment:%H:%M} UTC" if moment.second == 0 else f"{day}{moment:%H:%M:%S} UTC"


def rounded(duration: timedelta) -> str:
    """Whole minutes, or seconds below one."""
    seconds = max(0, int(duration.total_seconds()))
    return format_duration(timedelta(seconds=seconds - seconds % 60 if seconds >= 60 else seconds))
