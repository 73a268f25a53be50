"""Futures that take too long: fewer and shorter ones, and what is still said of them."""

from dataclasses import dataclass, field

from muster.live.snapshot.workloads import Amounts
from muster.model import names
from muster.model.stack import Scheduler
from muster.replay.figures import NEVER
from muster.replay.forecast import Forecast, Settings, forecast
from muster.replay.moment import Moment
from muster.replay.player import Playback, PlayedRun
from muster.replay.recording import Header, Job, PodSet
from muster.replay.side import KueueDecider, Side, Subject, of_cluster

_AT = 1_000_000.0
_HOUR = 3600
_SOON, _LATE = (
    Job(
        id=name,
        team="vision",
        queue="default",
        created=_AT,
        pod_sets=(PodSet(name="main", count=1, requests={names.GPU_RESOURCE: 1}),),
    )
    for name in ("soon", "late")
)
_QUEUE = {
    "apiVersion": names.KUEUE_API_VERSION,
    "kind": "LocalQueue",
    "metadata": {"name": "default", "namespace": "vision"},
    "spec": {"clusterQueue": "vision"},
}
_USAGE: dict[str, Amounts] = {}


@dataclass
class _Player:
    """Starts one job after an hour and the other after 30. The plays of a future in `cut` that are to go on
    for more than six hours end after as many hours as it says.
    """

    cut: dict[int, int] = field(default_factory=dict)
    limits: list[float] = field(default_factory=list)
    reached: list[float] = field(default_factory=list)

    def __call__(self, side: Subject) -> Playback:
        assert isinstance(side, Side)
        end = side.world.horizon
        self.limits.append(side.world.limit)
        if is_first := end == 6 * _HOUR:
            self.reached.append(0.0)
        cut = self.cut.get(len(self.reached) - 1)
        is_cut = cut is not None and not is_first
        if cut is not None and is_cut:
            end = cut * _HOUR
        self.reached[-1] = end
        starts = {"vision/soon": _AT + _HOUR, "vision/late": _AT + 30 * _HOUR}
        runs = {
            label: [PlayedRun(start=start, end=None, usage=_USAGE)] if start <= _AT + end else []
            for label, start in starts.items()
        }
        return Playback(
            runs=runs, digest="", end=_AT + end, cycles=0, admissions=0, preemptions=0, is_cut=is_cut
        )


def _forecast(player: _Player, *, limit: float | None = None) -> tuple[Forecast, ...]:
    return forecast(
        KueueDecider(of_cluster([_QUEUE], {})),
        Header(scheduler=Scheduler.KUEUE, start=0, end=_AT, source="test"),
        Moment(at=_AT, running=(), waiting=(_SOON, _LATE), past=()),
        jobs=[_SOON, _LATE],
        player=player,
        settings=Settings(runs=20, seconds=72 * _HOUR, at_once=1, limit=limit),
    )


def test_without_a_limit_all_futures_are_played_until_the_last_job_starts() -> None:
    player = _Player()
    soon, late = _forecast(player)
    assert (soon.runs, soon.seconds, late.latest) == (20, 72 * _HOUR, 30 * _HOUR)
    assert player.reached == [72 * _HOUR] * 20
    assert set(player.limits) == {0}


def test_when_the_time_is_over_as_many_futures_are_played_as_an_interval_needs() -> None:
    player = _Player()
    soon, late = _forecast(player, limit=0)
    assert (soon.runs, late.runs, late.latest) == (9, 9, 30 * _HOUR)
    assert all(player.limits)


def test_a_future_that_was_cut_says_nothing_about_what_comes_later() -> None:
    """Also of the others: it may be the one in which most jobs wait."""
    soon, late = _forecast(_Player(cut={4: 20}), limit=900)
    assert (soon.runs, soon.seconds) == (20, 20 * _HOUR)
    assert (soon.earliest, soon.latest) == (_HOUR, _HOUR)
    assert (late.earliest, late.unstarted) == (NEVER, 20)


def test_a_long_play_that_was_cut_early_is_worth_less_than_the_short_one_before_it() -> None:
    soon, _ = _forecast(_Player(cut={4: 2}), limit=900)
    assert soon.seconds == 6 * _HOUR
