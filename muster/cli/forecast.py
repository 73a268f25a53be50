"""Carries out the forecasts of `muster why`: when a job that waits, or is not submitted yet, starts.

Apart from the command, because its imports take longer than printing `--help` may.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from operator import methodcaller
from pathlib import Path
from typing import Self

from muster.cli.output import progress
from muster.config import load
from muster.errors import MusterError
from muster.kubernetes.client import Client
from muster.live.snapshot import fetch_snapshot
from muster.model.stack import Scheduler, Stack
from muster.preview.replay.both import decider_of, ensure_player_of
from muster.preview.replay.forecast_text import Prediction, find_sooner, load_submitted
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
from muster.replay.recording import Header, Job, Recording
from muster.replay.recording_file import load_recording
from muster.replay.side import Decider

__all__ = ["Asked", "load", "predict", "predict_all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """`job` waits, or `file` is to be submitted by `team`, or every waiting job is meant: now in the cluster
    of `api`, or without one in the recording at `at`, which None makes its end. `runs`: how many futures,
    None for as many as the scheduler gets.
    """

    stack: Stack
    recording: Path
    settings: Settings
    runs: int | None = None
    api: Client | None = None
    at: datetime | None = None
    job: str = ""
    file: Path | None = None
    team: str = ""
    with_alternatives: bool = True


def predict(asked: Asked) -> Prediction:
    """The forecast; of a job of a file, with the changes that would let it start sooner."""
    known = _Known.load(asked)
    moment, most = known.moment, known.settings.runs

    def of(job: Job, moment: Moment, runs: int) -> Forecast:
        return forecast(
            known.decider,
            known.header,
            moment,
            history=known.history,
            jobs=[job],
            player=known.player,
            settings=replace(known.settings, runs=runs),
        )[0]

    def submitted_with(job: Job, runs: int) -> Forecast:
        return of(job, replace(moment, waiting=(*moment.waiting, job)), runs)

    if asked.file is None:
        return Prediction(of(find_waiting(moment, asked.job), moment, most))
    submitted = load_submitted(asked.stack, asked.file, asked.team, at=moment.at)
    own = submitted_with(submitted.job, most)
    tried = submitted.alternatives if asked.with_alternatives else ()
    return Prediction(own, find_sooner(own, tried, submitted_with))


def predict_all(asked: Asked) -> Outlook:
    """The forecasts of every job that waits, from one set of futures."""
    known = _Known.load(asked)
    return forecast_all(
        known.decider,
        known.header,
        known.moment,
        history=known.history,
        player=known.player,
        settings=known.settings,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What every forecast is made from."""

    decider: Decider
    header: Header
    moment: Moment
    history: Moment | None
    player: Player
    settings: Settings

    @classmethod
    def load(cls, asked: Asked) -> Self:
        decider, recording = decider_of(asked.stack), load_recording(asked.recording)
        moment, history = (
            _recorded(recording, asked.at)
            if asked.api is None
            else _now(recording, asked.api, decider.scheduler)
        )
        with progress():
            program = ensure_player_of(decider.scheduler)
        return cls(
            decider=decider,
            header=recording.header,
            moment=moment,
            history=history,
            player=methodcaller("play", program),
            settings=replace(asked.settings, runs=asked.runs or decider.runs),
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


def _now(recording: Recording, api: Client, scheduler: Scheduler) -> tuple[Moment, Moment]:
    """The cluster's moment, and what the recording knew until then."""
    snapshot = fetch_snapshot(api)
    if snapshot.scheduler is not scheduler:
        raise MusterError(
            f"the cluster's queues are {snapshot.scheduler}'s, and the stack's scheduler is {scheduler}.",
            fix="name the stack of this cluster.",
        )
    if snapshot.lacks_work:
        raise MusterError(
            "what runs and waits is unknown: the account may not list it.",
            fix="give it the right to list pods, nodes, podgroups and bindrequests.",
        )
    moment = moment_of(snapshot)
    return moment, at_moment(recording, min(recording.header.end, moment.at))
