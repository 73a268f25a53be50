"""The grammar of goals, and how far a replay is from one."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.model.queues import Department, Team
from muster.model.stack import Stack
from muster.preview.proposal.evaluate import Goal, GoalError, Kind, Sample, check_goals, parse_goal
from muster.replay.figures import NEVER, Played, percentile
from tests.unit.model.model_stacks import stack, team


def _stack(*teams: Team) -> Stack:
    research = Department(name="research", teams=(team("vision"), team("speech"), *teams))
    return stack(
        Department(
            name="company", departments=(research, Department(name="product", teams=(team("ranking"),)))
        )
    )


def _job(number: int, team_name: str = "vision", priority: str = "prod") -> Played:
    return Played(
        key="",
        label=f"{team_name}/{number}",
        team=team_name,
        queue=team_name,
        priority=priority,
        gpus=1,
        arrival=0,
    )


def _sample(waits: list[float], *, preemptions: int = 0, used: float = 0.5) -> Sample:
    jobs = [_job(number) for number in range(len(waits))]
    return Sample(jobs=jobs, waits=waits, preemptions=[preemptions] + [0] * (len(jobs) - 1), used=used)


def _goal(text: str) -> Goal:
    return parse_goal(text, _stack())


def _wait(percent: int, bound: float, *, of: frozenset[str] | str | None = None, strict: bool = True) -> Goal:
    """`of`: teams or a priority."""
    return Goal(
        text="",
        kind=Kind.WAIT,
        bound=bound,
        is_strict=strict,
        percent=percent,
        teams=of if isinstance(of, frozenset) else None,
        priority=of if isinstance(of, str) else None,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("p95(prod) < 15m", _wait(95, 900, of="prod")),
        (" p50( vision )<=1h30m ", _wait(50, 5400, of=frozenset({"vision"}), strict=False)),
        ("p90(research) < 45s", _wait(90, 45, of=frozenset({"vision", "speech"}))),
        ("p99(all) < 1h", _wait(99, 3600)),
        (
            "preemptions(dev) <= 14",
            Goal(text="", kind=Kind.PREEMPTIONS, bound=14, is_strict=False, priority="dev"),
        ),
        ("utilization > 80%", Goal(text="", kind=Kind.UTILIZATION, bound=0.8, is_strict=True)),
        ("utilization >= 0.8", Goal(text="", kind=Kind.UTILIZATION, bound=0.8, is_strict=False)),
    ],
)
def test_goals_are_read(text: str, expected: Goal) -> None:
    assert replace(_goal(text), text="") == expected


def test_a_department_counts_the_teams_of_departments_below_it() -> None:
    assert _goal("p50(company) < 1h").teams == frozenset({"vision", "speech", "ranking"})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("prod < 15m", "cannot be bounded"),
        ("p95 < 15m", "does not say whose jobs count"),
        ("p95(prod) > 15m", "from the wrong side"),
        ("p95(prod) < 15", "is no bound of wait"),
        ("p95(prod) = 15m", "is no goal"),
        ("p95(prd) < 15m", "the stack has no 'prd'. Fix: name one of all, company, "),
        ("p97(prod) < 15m", "p97 cannot be bounded"),
        ("preemptions(dev) <= few", "is no bound of preemptions"),
        ("utilization < 80%", "from the wrong side"),
        ("utilization(all) > 80%", "it is of all pools"),
        ("utilization > 180%", "is no share"),
        ("utilization > nan", "is no share"),
        ("wait(prod) < 15m", "cannot be bounded"),
    ],
)
def test_other_goals_are_refused_with_a_fix(text: str, words: str) -> None:
    with pytest.raises(GoalError) as error:
        _goal(text)
    assert words in str(error.value)
    assert "Fix: " in str(error.value)


def test_a_name_of_a_team_and_of_a_priority_is_refused() -> None:
    with pytest.raises(GoalError, match="is a priority and a team or department"):
        parse_goal("p95(prod) < 15m", _stack(team("prod")))


def test_a_goal_about_jobs_that_the_recording_lacks_is_refused() -> None:
    with pytest.raises(GoalError, match="no job of the recording"):
        check_goals([_goal("p95(dev) < 1h")], [_job(1)])


_WAITS = st.lists(st.one_of(st.integers(0, 2000).map(float), st.just(NEVER)), min_size=1, max_size=40)


@given(waits=_WAITS, percent=st.sampled_from([50, 90, 95, 99]), is_strict=st.booleans())
def test_a_wait_goal_falls_short_by_nothing_exactly_where_its_percentile_is_within_the_bound(
    waits: list[float], percent: int, *, is_strict: bool
) -> None:
    goal = Goal(text="", kind=Kind.WAIT, bound=900.0, is_strict=is_strict, percent=percent)
    value = percentile(sorted(waits), percent)
    is_met = value < 900 if is_strict else value <= 900
    assert (goal.shortfall(_sample(waits)) == 0) == is_met
    assert goal.value(_sample(waits)) == value


@given(waits=_WAITS, data=st.data())
def test_a_shorter_wait_never_brings_a_goal_further_away(waits: list[float], data: st.DataObject) -> None:
    goal = _goal("p90(all) < 15m")
    shorter = [data.draw(st.sampled_from([wait, 0.0, min(wait, 1000.0)])) for wait in waits]
    assert goal.shortfall(_sample(shorter)) <= goal.shortfall(_sample(waits)) + 1e-9


def test_a_wait_that_is_still_too_long_counts_by_how_much() -> None:
    goal = _goal("p50(all) < 15m")
    assert (
        0
        < goal.shortfall(_sample([1000.0]))
        < goal.shortfall(_sample([9000.0]))
        < goal.shortfall(_sample([NEVER]))
    )


@pytest.mark.parametrize(
    ("text", "is_met"),
    [
        ("preemptions(prod) <= 3", True),
        ("preemptions(prod) < 3", False),
        ("preemptions(prod) <= 2", False),
        ("utilization >= 50%", True),
        ("utilization > 50%", False),
    ],
)
def test_bounds_of_preemptions_and_utilization(text: str, *, is_met: bool) -> None:
    assert (_goal(text).shortfall(_sample([0.0], preemptions=3)) == 0) == is_met


@pytest.mark.parametrize(
    ("seconds", "shown"), [(7200.0, "2.0 h"), (7201.0, "7,201 s"), (7199.0, "7,199 s"), (14_400.0, "4.0 h")]
)
def test_a_wait_just_beside_the_bound_is_shown_to_the_second(seconds: float, shown: str) -> None:
    assert _goal("p95(vision) <= 2h").format(seconds) == shown
