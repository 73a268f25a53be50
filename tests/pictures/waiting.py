"""Where a job can wait, in the words of `muster why`."""

from typing import Final

from muster.live.snapshot import State
from muster.live.why.format import HEADLINES
from tests.pictures.drawing import Box, Drawing, Point

_WAY: Final = (
    (State.PENDING, "Others use it, or the job asks for too much."),
    (State.RESERVED, "Nodes are on their way. All have to be there."),
    (State.ADMITTED, "What hangs now is a pod."),
)
_ASIDE: Final = (
    (HEADLINES[State.INACTIVE], "", "No nodes came in time. It retries by itself."),
    ("refused", "bad", "It can never run as it is: change it."),
)
_STEP: Final = 92


def picture() -> str:
    drawing = Drawing(
        400,
        50 + _STEP * (len(_WAY) + len(_ASIDE)),
        "Where a job can wait",
        " ".join(f"{HEADLINES[state]}: {why}" for state, why in _WAY),
    )
    for number, (state, why) in enumerate(_WAY):
        y = 50 + _STEP * number
        if number:
            drawing.arrow([Point(200, y - _STEP + 46), Point(200, y - 18)])
        _row(drawing, y, HEADLINES[state], why, "good" if state is State.ADMITTED else "")
    for number, (title, kind, why) in enumerate(_ASIDE):
        _row(drawing, 75 + _STEP * (len(_WAY) + number), title, why, kind)
    return drawing.svg()


def _row(drawing: Drawing, y: int, title: str, why: str, kind: str) -> None:
    drawing.box(Box(at=Point(200, y), title=title, width=320, kind=kind))
    drawing.text(Point(200, y + 36), why)
