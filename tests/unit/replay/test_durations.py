"""How long jobs run, where some still do."""

import random

import pytest

from muster.replay.durations import Kind, Seen, intraclass_correlation, learn, to_distribution


def _kind(*, team: str = "vision", priority: str = "dev", session: int = 0) -> Kind:
    return Kind(team=team, priority=priority, session=session)


def _seen(seconds: float, *, is_over: bool = True, kind: Kind | None = None) -> Seen:
    return Seen(kind=kind or _kind(), seconds=seconds, is_over=is_over)


def _drawn(seen: list[Seen], *, number: int, kind: Kind | None = None, beyond: float = 0) -> list[float]:
    durations, dice = learn(seen), random.Random(1)
    return [
        durations.draw(kind or _kind(), dice, session=random.Random(index), beyond=beyond)
        for index in range(number)
    ]


def test_a_job_that_still_runs_adds_to_the_longer_ones() -> None:
    found = to_distribution([_seen(10), _seen(20, is_over=False), _seen(30), _seen(40)])
    assert list(found.lengths) == [10, 30, 40]
    assert list(found.shares) == pytest.approx([0.25, 0.625, 1.0])


def test_a_job_is_drawn_as_long_as_the_others() -> None:
    drawn = _drawn([_seen(each) for each in range(1, 101)], number=1000)
    assert min(drawn) >= 1
    assert max(drawn) <= 100
    assert sum(drawn) / len(drawn) == pytest.approx(50.5, abs=3)


def test_a_job_that_runs_is_drawn_longer_than_it_has_run() -> None:
    drawn = _drawn([_seen(each) for each in range(1, 101)], number=500, beyond=60)
    assert min(drawn) > 60
    assert max(drawn) <= 100
    assert sum(drawn) / len(drawn) == pytest.approx(80.5, abs=2)


def test_a_job_longer_than_all_known_ones_goes_on() -> None:
    drawn = sorted(_drawn([_seen(10)], number=501, beyond=50))
    assert drawn[0] >= 50
    assert drawn[250] == pytest.approx(100, rel=0.2)


def test_a_group_counts_the_more_the_more_of_its_jobs_ended() -> None:
    speech = _kind(team="speech")
    few = [*(_seen(100) for _ in range(100)), *(_seen(5, kind=speech) for _ in range(10))]
    many = [*few, *(_seen(5, kind=speech) for _ in range(890))]
    shares = [_drawn(seen, number=1000, kind=speech).count(5) / 1000 for seen in (few, many)]
    assert 0.15 < shares[0] < 0.4
    assert shares[1] > 0.95


def test_a_job_that_outlasted_its_group_is_drawn_from_those_that_run_as_long() -> None:
    speech = _kind(team="speech")
    seen = [*(_seen(5, kind=speech) for _ in range(500)), *(_seen(each) for each in range(100, 200))]
    assert all(100 <= each < 200 for each in _drawn(seen, number=100, kind=speech, beyond=50))


def test_jobs_of_a_session_are_drawn_as_much_alike_as_they_were() -> None:
    """In each session of the past, jobs took nearly the same time."""
    seen = [
        _seen(1000 * (1 + session % 10) + index, kind=_kind(session=session))
        for session in range(100)
        for index in range(5)
    ]
    durations, dice = learn(seen), random.Random(1)
    assert durations.shared > 0.9
    pairs = [
        [durations.draw(_kind(), dice, session=random.Random(index)) for _ in range(2)]
        for index in range(400)
    ]
    assert intraclass_correlation(pairs) > 0.8
    apart = [[durations.draw(_kind(), dice, session=dice) for _ in range(2)] for _ in range(400)]
    assert intraclass_correlation(apart) < 0.2


@pytest.mark.parametrize(
    ("groups", "share"), [([[1, 1], [5, 5]], 1), ([[1, 5], [1, 5]], 0), ([[1], [5]], 0), ([], 0)]
)
def test_the_variance_that_a_group_shares(groups: list[list[float]], share: float) -> None:
    assert intraclass_correlation(groups) == pytest.approx(share)


def test_nothing_known_still_gives_a_duration() -> None:
    assert _drawn([], number=1)[0] >= 0
