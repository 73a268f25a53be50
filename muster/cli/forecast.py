"""Carries out `muster why --replay`: when a job of a recording, or one that is not submitted yet, starts.

Apart from the command, because its imports take longer than printing `--help` may.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

from muster.check import manifests
from muster.check.admission import Admission
from muster.check.demands import Demand, demands, queue_name
from muster.cli.options import existing_stack
from muster.cli.output import progress
from muster.config import load
from muster.errors import MusterError
from muster.model import names
from muster.model.stack import Stack
from muster.preview.replay.forecast import Forecast, Settings, find_waiting, forecast
from muster.replay.moment import at_moment
from muster.replay.player import ensure_player
from muster.replay.reader import load_recording
from muster.replay.recording import Job, PodSet

_ID = "submitted"
_MILLICORES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """`job` waits in the recording; or `file` is to be submitted by `team`. `at`: None is the recording's
    end.
    """

    stack: str
    recording: Path
    at: datetime | None
    settings: Settings
    job: str = ""
    file: Path | None = None
    team: str = ""


def predict(asked: Asked) -> Forecast:
    stack, recording = load(existing_stack(asked.stack)), load_recording(asked.recording)
    header = recording.header
    at = header.end if asked.at is None else asked.at.timestamp()
    if not header.start <= at <= header.end:
        span = " to ".join(
            f"{datetime.fromtimestamp(each, UTC):%Y-%m-%dT%H:%MZ}" for each in (header.start, header.end)
        )
        raise MusterError("--at is outside the recording.", fix=f"name a moment of {span}.")
    moment = at_moment(recording, at)
    if asked.file is None:
        job = find_waiting(moment, asked.job)
    else:
        job = _submitted(stack, asked.file, asked.team, at=at)
        moment = replace(moment, waiting=(*moment.waiting, job))
    with progress():
        program = ensure_player()
    return forecast(stack, header, moment, jobs=[job.id], program=program, settings=asked.settings)[0]


def _submitted(stack: Stack, file: Path, team: str, *, at: float) -> Job:
    """The job of a file as its team would submit it now."""
    admission = Admission(stack, team)
    bodies = manifests.read(_read(file), str(file))
    found = [(body, groups) for body in map(admission.fixed, bodies) if (groups := demands(admission, body))]
    if len(found) != 1:
        raise MusterError(
            f"{file}: {len(found)} of its objects are jobs.",
            fix="name a file with one job, such as a RayJob.",
        )
    body, groups = found[0]
    priority = str(body["metadata"].get("labels", {}).get(names.PRIORITY_LABEL) or "")
    return Job(
        id=_ID,
        team=body["metadata"]["namespace"],
        queue=queue_name(admission, body),
        created=at,
        pod_sets=tuple(_pod_set(each) for each in groups),
        priority_class=priority,
    )


def _pod_set(demand: Demand) -> PodSet:
    pools = tuple(place.pool for place in demand.places if not place.reason)
    if not pools:
        reasons = "; ".join(f"{place.pool}: {place.reason}" for place in demand.places)
        raise MusterError(
            f"its pods {demand.name} fit no pool, so it never starts: {reasons}.",
            fix="muster check prints what to change.",
        )
    requests = {
        name: _whole(amount * _MILLICORES if name == "cpu" else amount)
        for name, amount in demand.each.items()
    }
    return PodSet(name=demand.name, count=demand.pods, requests=requests, pools=pools)


def _whole(amount: Fraction) -> int:
    return -int(-amount // 1)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MusterError(f"{file}: it cannot be read: {error}") from error
