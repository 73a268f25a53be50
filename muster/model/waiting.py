"""Sentences about a waiting gang, which the controller writes and the preview repeats.

Responsible for the text about a gang that waits without quota or was refused, and for the format of a time
and a duration in it.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from muster.model.capacity import Capacity
from muster.model.names import KEEP_UNTIL_ANNOTATION, STOP_ANNOTATION
from muster.model.quantities import format_duration
from muster.model.stack import GangMode, Stack

# What a stack guarantees about gangs, as one sentence for outputs, warnings and reports.

ALL_OR_NOTHING: Final = "A gang starts when all of its nodes are ready, or not at all."
BY_PLACEHOLDERS: Final = (
    "A gang starts when placeholders have all of its nodes, or not at all. Nodes that come in vain are paid "
    "for until its deadline."
)
NOT_PROMISED: Final = (
    "All-or-nothing is not promised: nodes are made as pods ask, so part of a gang may get its nodes, "
    "and hold them, while the rest waits."
)
_OFF: Final = "All-or-nothing is not promised: gang admission is off, so nodes come one by one as pods ask."
_NONE_QUEUED: Final = "All-or-nothing is not promised: the stack has no queued pool."


def gang_promise(stack: Stack) -> str:
    """One sentence about the stack's queued pools; pools bought in other ways promise nothing."""
    if stack.placeholder_pools:
        return BY_PLACEHOLDERS if not stack.queued_pools else ALL_OR_NOTHING
    if stack.cluster.makes_nodes_for_pods:
        return NOT_PROMISED
    if stack.gang_admission.mode is GangMode.OFF:
        return _OFF
    if not any(pool.capacity is Capacity.QUEUED for pool in stack.pools):
        return _NONE_QUEUED
    return ALL_OR_NOTHING


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


def idle(since: datetime, ends: datetime | None) -> str:
    """Of a gang whose GPUs do nothing. `ends`: when it is stopped for that, None for never."""
    what = f"no GPU of it has done anything since {clock(since, far=True)}"
    if ends is None:
        return what
    return (
        f"{what}; it is stopped at {clock(ends, far=True)} unless one does, or its job has annotation "
        f"{KEEP_UNTIL_ANNOTATION} with a later time"
    )


def not_idle() -> str:
    """Of a gang that had the notice."""
    return "its GPUs do something, or what they do is not known: it is not stopped for being idle"


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
