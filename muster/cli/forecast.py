"""Carries out the forecasts of `muster why`: when a job that waits, or is not submitted yet, starts.

Apart from the command, because its imports take longer than printing `--help` may.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Self

from muster.cli.options import existing_stack
from muster.cli.output import progress
from muster.config import load
from muster.errors import MusterError
from muster.live.cluster.api import Api
from muster.live.snapshot import fetch_snapshot
from muster.model.stack import Scheduler, Stack
from muster.preview.replay.alternatives import Prediction, find_sooner
from muster.preview.replay.queues import queues_of
from muster.preview.replay.submitted import load_submitted
from muster.replay.forecast import (
    Forecast,
    Outlook,
    Player,
    Settings,
    find_waiting,
    forecast,
    forecast_all,
)
from muster.replay.moment import Moment, at_moment, moment_of
from muster.replay.player import ensure_player, play
from muster.replay.queues import Queues
from muster.replay.reader import load_recording
from muster.replay.recording import Header, Job, Recording


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """`job` waits, or `file` is to be submitted by `team`, or every waiting job is meant: now in the cluster
    of `api`, or without one in the recording at `at`, which None makes its end.
    """

    stack: str
    recording: Path
    settings: Settings
    api: Api | None = None
    at: datetime | None = None
    job: str = ""
    file: Path | None = None
    team: str = ""
    with_alternatives: bool = True


def predict(asked: Asked) -> Prediction:
    """The forecast; of a job of a file, with the changes that would let it start sooner."""
    known = _Known.load(asked)
    stack, moment = known.stack, known.moment

    def of(job: Job, moment: Moment, runs: int) -> Forecast:
        settings = replace(asked.settings, runs=runs)
        return forecast(
            known.queues,
            known.header,
            moment,
            history=known.history,
            jobs=[job],
            player=known.player,
            settings=settings,
        )[0]

    def submitted_with(job: Job, runs: int) -> Forecast:
        return of(job, replace(moment, waiting=(*moment.waiting, job)), runs)

    if asked.file is None:
        return Prediction(of(find_waiting(moment, asked.job), moment, asked.settings.runs))
    submitted = load_submitted(stack, asked.file, asked.team, at=moment.at)
    own = submitted_with(submitted.job, asked.settings.runs)
    tried = submitted.alternatives if asked.with_alternatives else ()
    return Prediction(own, find_sooner(own, tried, submitted_with))


def predict_all(asked: Asked) -> Outlook:
    """The forecasts of every job that waits, from one set of futures."""
    known = _Known.load(asked)
    return forecast_all(
        known.queues,
        known.header,
        known.moment,
        history=known.history,
        player=known.player,
        settings=asked.settings,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What every forecast is made from."""

    stack: Stack
    queues: Queues
    header: Header
    moment: Moment
    history: Moment | None
    player: Player

    @classmethod
    def load(cls, asked: Asked) -> Self:
        stack, recording = load(existing_stack(asked.stack)), load_recording(asked.recording)
        queues = queues_of(stack)
        moment, history = _recorded(recording, asked.at) if asked.api is None else _now(recording, asked.api)
        with progress():
            player = partial(play, program=ensure_player())
        return cls(
            stack=stack,
            queues=queues,
            header=recording.header,
            moment=moment,
            history=history,
            player=player,
        )


def _recorded(recording: Recording, at: datetime | None) -> tuple[Moment, None]:
    header = recording.header
    moment = header.end if at is None else at.timestamp()
    if not header.start <= moment <= header.end:
        span = " to ".join(
            f"{datetime.fromtimestamp(each, UTC):%Y-%m-%dT%H:%MZ}" for each in (header.start, header.end)
        )
        raise MusterError("--at is outside the recording.", fix=f"name a moment of {span}.")
    return at_moment(recording, moment), None


def _now(recording: Recording, api: Api) -> tuple[Moment, Moment]:
    """The cluster's moment, and what the recording knew until then."""
    snapshot = fetch_snapshot(api)
    if snapshot.scheduler is not Scheduler.KUEUE:
        raise MusterError(
            "the cluster's queues are not Kueue's, and a forecast plays Kueue's scheduler.",
            fix="leave --recording out.",
        )
    moment = moment_of(snapshot)
    return moment, at_moment(recording, min(recording.header.end, moment.at))
