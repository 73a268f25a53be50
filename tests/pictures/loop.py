"""The loop between queue, autoscaler and pods, with the objects by which they speak."""

from __future__ import annotations

from typing import Final

from tests.pictures.drawing import Box, Drawing, Point

_BOXES: Final = (
    Box(at=Point(105, 60), title="Ray job or Job", lines=("of a team",), width=170),
    Box(at=Point(105, 220), title="Kueue", lines=("quota, order,", "preemption"), width=170),
    Box(
        at=Point(410, 220),
        title="Muster's controller",
        lines=("a gang is whole,", "or holds nothing"),
        width=180,
    ),
    Box(at=Point(675, 220), title="Autoscaler", lines=("GKE, Karpenter,", "cluster-autoscaler"), width=160),
    Box(at=Point(675, 390), title="Nodes", lines=("of the gang's pools",), width=160),
    Box(at=Point(105, 390), title="Pods", lines=("created at once,", "on these nodes"), width=170),
)
_ARROWS: Final = (
    ("1 Workload, suspended", ((105, 86), (105, 184)), (113, 140), "start", "b"),
    ("2 QuotaReserved", ((190, 205), (318, 205)), (254, 196), "middle", "b"),
    ("3 requests", ((500, 220), (593, 220)), (546, 211), "middle", "a"),
    ("4 buys", ((675, 255), (675, 364)), (683, 318), "start", "c"),
    ("5 verifies the nodes", ((595, 390), (410, 390), (410, 257)), (402, 372), "end", "a"),
    ("6 check Ready", ((320, 236), (192, 236)), (256, 256), "middle", "a"),
    ("7 admits", ((105, 256), (105, 354)), (113, 310), "start", "b"),
    ("no capacity in time:", ((410, 184), (410, 60), (192, 60)), (418, 92), "start", "c"),
)


def picture() -> str:
    drawing = Drawing(
        780,
        450,
        "The loop between queue, autoscaler and pods",
        "A Workload waits in Kueue. With quota reserved, Muster's controller makes a request for each pool. "
        "The autoscaler buys nodes. The controller verifies them and sets its check Ready. Kueue admits the "
        "gang, and all pods start.",
    )
    for what, corners, at, anchor, kind in _ARROWS:
        drawing.arrow([Point(*corner) for corner in corners], kind=kind)
        drawing.text(Point(*at), what, kind=f"small {kind}", anchor=anchor)
    drawing.text(Point(418, 112), "release everything, queue again later", kind="small c", anchor="start")
    for box in _BOXES:
        drawing.box(box)
    return drawing.svg()
