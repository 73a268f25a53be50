"""The loop between queue, autoscaler and pods, with the objects by which they speak, wide and for a phone."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from tests.pictures.drawing import Box, Drawing, Point

_BOXES: Final[Mapping[str, tuple[str, ...]]] = {
    "Ray job or Job": ("of a team",),
    "Kueue": ("quota, order,", "preemption"),
    "Muster's controller": ("a gang is whole,", "or holds nothing"),
    "Autoscaler": ("GKE, Karpenter,", "cluster-autoscaler"),
    "Nodes": ("of the gang's pools",),
    "Pods": ("created at once,", "on these nodes"),
}


class _Arrow(NamedTuple):
    """`label`: its lines, the first of them at `at`."""

    label: tuple[str, ...]
    corners: tuple[tuple[int, int], ...]
    at: tuple[int, int]
    anchor: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """`centres`: of each box of _BOXES, in their order."""

    width: int
    height: int
    centres: tuple[tuple[int, int], ...]
    arrows: tuple[_Arrow, ...]


_WIDE: Final = _Layout(
    width=780,
    height=450,
    centres=((105, 60), (105, 220), (410, 220), (675, 220), (675, 390), (105, 390)),
    arrows=(
        _Arrow(("1 Workload, suspended",), ((105, 86), (105, 184)), (113, 140), "start", "b"),
        _Arrow(("2 QuotaReserved",), ((195, 205), (318, 205)), (256, 196), "middle", "b"),
        _Arrow(("3 requests",), ((500, 220), (583, 220)), (541, 211), "middle", "a"),
        _Arrow(("4 buys",), ((675, 255), (675, 364)), (683, 318), "start", "c"),
        _Arrow(("5 verifies the nodes",), ((585, 390), (410, 390), (410, 257)), (402, 372), "end", "a"),
        _Arrow(("6 check Ready",), ((320, 236), (197, 236)), (258, 256), "middle", "a"),
        _Arrow(("7 admits",), ((105, 256), (105, 354)), (113, 310), "start", "b"),
        _Arrow(
            ("no capacity in time:", "release everything, queue again later"),
            ((410, 184), (410, 60), (197, 60)),
            (418, 92),
            "start",
            "c",
        ),
    ),
)
_NARROW: Final = _Layout(
    width=390,
    height=715,
    centres=((165, 45), (165, 165), (165, 300), (165, 435), (165, 560), (165, 670)),
    arrows=(
        _Arrow(("1 Workload, suspended",), ((125, 70), (125, 129)), (133, 105), "start", "b"),
        _Arrow(("2 QuotaReserved",), ((145, 200), (145, 264)), (137, 237), "end", "b"),
        _Arrow(("3 requests",), ((165, 335), (165, 399)), (173, 371), "start", "a"),
        _Arrow(("4 buys",), ((165, 470), (165, 534)), (173, 506), "start", "c"),
        _Arrow(
            ("5 verifies", "the nodes"),
            ((255, 560), (290, 560), (290, 315), (257, 315)),
            (298, 440),
            "start",
            "a",
        ),
        _Arrow(("6 check Ready",), ((185, 266), (185, 201)), (193, 237), "start", "a"),
        _Arrow(("7 admits",), ((75, 165), (16, 165), (16, 670), (73, 670)), (24, 371), "start", "b"),
        _Arrow(
            ("no capacity", "in time:", "release", "everything,", "queue again", "later"),
            ((255, 285), (290, 285), (290, 45), (257, 45)),
            (298, 115),
            "start",
            "c",
        ),
    ),
)


def wide() -> str:
    return _picture(_WIDE)


def narrow() -> str:
    return _picture(_NARROW)


def _picture(layout: _Layout) -> str:
    drawing = Drawing(
        layout.width,
        layout.height,
        "The loop between queue, autoscaler and pods",
        "A Workload waits in Kueue. With quota reserved, Muster's controller makes a request for each pool. "
        "The autoscaler buys nodes. The controller verifies them and sets its check Ready. Kueue admits the "
        "gang, and all pods start.",
    )
    for arrow in layout.arrows:
        drawing.arrow([Point(*corner) for corner in arrow.corners], kind=arrow.kind)
        drawing.lines(Point(*arrow.at), arrow.label, kind=f"small {arrow.kind}", anchor=arrow.anchor)
    for (title, lines), centre in zip(_BOXES.items(), layout.centres, strict=True):
        drawing.box(Box(at=Point(*centre), title=title, lines=lines, width=180))
    return drawing.svg()
