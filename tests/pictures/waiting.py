"""Where a job can wait, in the words of `muster why`."""

from __future__ import annotations

from typing import Final

from muster.live.snapshot import State
from muster.live.why.format import HEADLINES
from tests.pictures.drawing import Box, Drawing, Point

_WAY: Final = (
    (State.PENDING, "Others use the quota, or the job asks for more than the queue has."),
    (State.RESERVED, "The cloud is asked for nodes. None is used before all are there."),
    (State.ADMITTED, "All pods are created together. What hangs now is a pod."),
)
_ASIDE: Final = (
    (HEADLINES[State.INACTIVE], "", "No nodes came in time. It tries again by itself: nothing to do."),
    ("refused", "bad", "It can never run as it is. Change it and submit it again."),
)
_STEP: Final = 84


def picture() -> str:
    drawing = Drawing(
        780,
        70 + _STEP * (len(_WAY) + len(_ASIDE)),
        "Where a job can wait",
        " ".join(f"{HEADLINES[state]}: {why}" for state, why in _WAY),
    )
    for number, (state, why) in enumerate(_WAY):
        y = 50 + _STEP * number
        if number:
            drawing.arrow([Point(60, y - _STEP + 18), Point(60, y - 18)])
        _row(drawing, y, HEADLINES[state], why, "good" if state is State.ADMITTED else "")
    for number, (title, kind, why) in enumerate(_ASIDE):
        _row(drawing, 75 + _STEP * (len(_WAY) + number), title, why, kind)
    return drawing.svg()


def _row(drawing: Drawing, y: int, title: str, why: str, kind: str) -> None:
    drawing.box(Box(at=Point(150, y), title=title, width=260, kind=kind))
    drawing.text(Point(295, y + 5), why, kind="small", anchor="start")
