"""The progress display: the time left is honest."""

import csv
import io
import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from muster.local.builder.everything import STEPS
from muster.local.builder.progress import Board, State, clock_text, plain_line, shown
from muster.local.builder.versions import load


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def board_of(*expected: float) -> tuple[Board, Clock]:
    clock = Clock()
    board = Board(clock)
    for number, seconds in enumerate(expected):
        board.add(f"t{number}", seconds)
    return board, clock


def test_a_slow_machine_takes_longer_for_what_is_left() -> None:
    board, clock = board_of(100, 50)
    board.start("t0")
    clock.now = 200
    board.done("t0")
    assert 75 < board.total_left() < 100


def test_the_time_left_of_a_recorded_build_is_near_the_truth_and_does_not_grow() -> None:
    """The first `make up` of a machine on 2026-11-30, with nothing else running."""
    with Path(__file__).with_name("cold_build.csv").open(encoding="utf-8", newline="") as recorded:
        events = list(csv.DictReader(recorded))
    programs, clock = load().programs, Clock()
    board, left = Board(clock), list[tuple[float, float]]()
    for task in dict.fromkeys(event["task"] for event in events):
        board.add(task, programs[task].seconds if task in programs else STEPS[task])
    for event in events:
        clock.now, task = float(event["second"]), event["task"]
        match event["event"]:
            case "started":
                board.start(task)
            case "built":
                board.done(task)
            case _:
                board.advance(task, int(event["packages"]) / programs[task].packages)
        left.append((clock.now, seconds_of(board.time_left())))
    said = [seconds for _, seconds in left]
    assert all(later <= 1.1 * min(said[:number]) + 1 for number, later in enumerate(said[1:], start=1))
    after_two_minutes = [(clock.now - at, seconds) for at, seconds in left if 120 < at < clock.now - 120]
    assert all(2 / 3 < seconds / truth < 3 / 2 for truth, seconds in after_two_minutes)


def seconds_of(text: str) -> int:
    """Of "about 9m12s left"; 0 where no time is given."""
    found = re.search(r"(?:(\d+)m)?(\d+)s", text)
    return int(found[1] or 0) * 60 + int(found[2]) if found else 0


def test_what_came_from_the_cache_teaches_nothing() -> None:
    board, _ = board_of(100, 50)
    board.done("t0", "ready", learnable=False)
    assert board.scale() == 1.0
    assert board.total_left() == 50


def test_the_inner_signal_overrides_the_record() -> None:
    board, clock = board_of(100)
    board.start("t0")
    clock.now = 200
    board.advance("t0", 0.5)
    assert board.left(board.items()[0]) == 100


@given(
    st.floats(min_value=0.1, max_value=1e4),
    st.floats(min_value=0, max_value=1e5),
    st.floats(min_value=0, max_value=2),
)
def test_nothing_looks_finished_before_it_is(expected: float, elapsed: float, signal: float) -> None:
    board, clock = board_of(expected)
    board.start("t0")
    clock.now = elapsed
    board.advance("t0", signal)
    item = board.items()[0]
    assert 0 <= board.fraction(item) < 1
    assert board.left(item) >= 0
    board.done("t0")
    assert board.fraction(board.items()[0]) == 1


def test_a_signal_never_goes_back() -> None:
    board, _ = board_of(10)
    board.start("t0")
    board.advance("t0", 0.6)
    board.advance("t0", 0.2)
    assert board.fraction(board.items()[0]) == 0.6


def test_a_plain_line_tells_what_runs_and_what_is_left() -> None:
    board, clock = board_of(10, 60)
    board.start("t1", "downloading")
    clock.now = 30
    assert plain_line(board) == "0 of 2 done, now t1 50% (downloading); about 40s left"


def test_what_takes_longer_than_recorded_promises_no_end() -> None:
    board, clock = board_of(10, 60)
    board.start("t0")
    clock.now = 300
    assert plain_line(board) == "0 of 2 done, now t0 90%; more than 1m00s left"
    board.done("t0")
    board.start("t1")
    board.advance("t1", 1.0, "691 packages compiled")
    clock.now = 900
    assert plain_line(board) == "1 of 2 done, now t1 97% (691 packages compiled); takes longer than recorded"


def test_without_a_terminal_every_built_task_gets_its_line() -> None:
    board, _ = board_of(10, 10)
    stream = io.StringIO()
    with shown(board, stream):
        board.start("t0")
        board.done("t0")
        board.done("t1", "ready", learnable=False)
    assert "t0: built in" in stream.getvalue()
    assert "t1" not in stream.getvalue()


def test_a_failing_task_stays_unfinished() -> None:
    board, _ = board_of(10)
    try:
        with board.task("t0"):
            raise RuntimeError
    except RuntimeError:
        pass
    assert board.items()[0].state is State.RUNNING


def test_seconds_read_as_people_say_them() -> None:
    assert [clock_text(value) for value in (0.2, 59.4, 63, 600)] == ["0s", "59s", "1m03s", "10m00s"]
