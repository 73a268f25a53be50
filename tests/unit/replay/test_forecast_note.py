"""The annotation on a waiting Workload: its words, and when they are written."""

from dataclasses import replace

import pytest

from muster.replay.figures import NEVER
from muster.replay.forecaster import next_note, to_note
from tests.unit.preview.preview_world import forecast

_AT = 1_764_067_200.0  # 2025-11-25 10:40 UTC
_HOUR = 3600.0
_FORECAST = forecast(
    job="team-a/train",
    gpus=8,
    at=_AT,
    earliest=2 * _HOUR + 60,
    median=3 * _HOUR,
    latest=5 * _HOUR + 60,
    runs=20,
    seconds=3 * 86_400,
    place=3,
    waiting=7,
)
_TAIL = ", place 3 of 7, as of 2025-11-25T10:40Z"


@pytest.mark.parametrize(
    ("earliest", "latest", "words"),
    [
        (2 * _HOUR + 60, 5 * _HOUR + 60, "starts 2025-11-25T12:40Z to 2025-11-25T15:50Z (80 %)"),
        (0.0, 0.0, "starts at once"),
        (2 * _HOUR, NEVER, "starts 2025-11-25T12:40Z or later (80 %)"),
        (NEVER, NEVER, "starts after 2025-11-28T10:40Z (80 %)"),
    ],
)
def test_it_says_when_the_place_and_as_of_when(earliest: float, latest: float, words: str) -> None:
    assert to_note(replace(_FORECAST, earliest=earliest, latest=latest)) == words + _TAIL


def _later(minutes: float, *, place: int = 3) -> tuple[str, float]:
    """A note of that later moment, with the same interval, and the moment."""
    at = _AT + minutes * 60
    moved = replace(
        _FORECAST,
        at=at,
        earliest=_FORECAST.earliest - minutes * 60,
        latest=_FORECAST.latest - minutes * 60,
        place=place,
    )
    return to_note(moved), at


_FIRST = to_note(_FORECAST)


def test_a_first_note_is_written() -> None:
    assert next_note(None, _FIRST, now=_AT) == _FIRST


def test_the_same_words_are_written_again_after_an_hour_only() -> None:
    for minutes, is_written in ((10, False), (50, False), (60, True)):
        after, now = _later(minutes)
        assert (next_note(_FIRST, after, now=now) == after) is is_written, minutes


def test_other_words_wait_until_ten_minutes_have_passed() -> None:
    for minutes, is_written in ((5, False), (10, True)):
        after, now = _later(minutes, place=2)
        assert (next_note(_FIRST, after, now=now) == after) is is_written, minutes


def test_a_start_of_one_job_writes_the_notes_of_the_next_few_alone() -> None:
    """Otherwise each round writes the note of every job of a queue of a thousand."""
    written = set()
    for place in range(2, 1_000):
        before, _ = _later(0, place=place)
        after, now = _later(10, place=place - 1)
        if next_note(before, after, now=now) == after:
            written.add(place)
    assert written == {2, 3, 4}
    before, _ = _later(0, place=100)
    after, now = _later(10, place=75)
    assert next_note(before, after, now=now) == after


def test_a_note_that_cannot_be_renewed_is_removed_after_an_hour() -> None:
    assert next_note(_FIRST, None, now=_AT + 59 * 60) == _FIRST
    assert next_note(_FIRST, None, now=_AT + 60 * 60) is None
    assert next_note(None, None, now=_AT) is None


@pytest.mark.parametrize("foreign", ["", "tomorrow", "soon, as of yesterday"])
def test_what_is_no_note_is_replaced(foreign: str) -> None:
    assert next_note(foreign, _FIRST, now=_AT) == _FIRST
    assert next_note(foreign, None, now=_AT) is None
