"""How the runs of a job end. Pure."""

from dataclasses import replace

from muster.replay.recording import End, Job, Run


def deleted(job: Job, *, at: float) -> Job:
    """A job whose object is gone without having finished."""
    return replace(
        job, left=max(at, job.created), outcome=End.DELETED, runs=close(job.runs, at=at, end=End.DELETED)
    )


def close(runs: tuple[Run, ...], *, at: float | None, end: End | None, reason: str = "") -> tuple[Run, ...]:
    """The runs with the last one ended, where it had not."""
    if not runs or runs[-1].ended is not None or at is None:
        return runs
    last = runs[-1]
    # What the scheduler took away stays taken away: its word is kept.
    is_taken = last.end is not None
    ended = replace(
        last,
        ended=max(at, last.reserved),
        end=last.end if is_taken else end,
        reason=last.reason if is_taken else reason,
    )
    return (*runs[:-1], ended)
