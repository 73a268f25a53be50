"""The life of a gang as a state diagram: states, ways and steps from walks.py, places from here."""

from collections import defaultdict
from typing import Final

from tests.pictures.drawing import Box, Drawing, Point
from tests.pictures.walks import FINISHED, Life, Way, walk

_AT: Final = {
    "queued": Point(330, 60),
    "provisioning": Point(330, 232),
    "ready": Point(330, 420),
    "running": Point(330, 560),
    FINISHED: Point(330, 690),
    "evicting": Point(85, 560),
    "backing_off": Point(625, 150),
    "refused": Point(625, 420),
}
_ABOUT: Final = {
    "queued": ("waits for quota",),
    "ready": ("all nodes are verified",),
    "running": ("Kueue started its pods",),
    FINISHED: ("requests are deleted",),
    "evicting": ("Kueue takes the", "quota back"),
    "backing_off": ("holds nothing;", "retries by itself"),
    "refused": ("no retry can help;", "a person acts"),
}
# The corners of each way between its two boxes, and where its label is.
_ROUTES: Final[dict[tuple[str, str], tuple[tuple[tuple[int, int], ...], tuple[int, int], str]]] = {
    ("queued", "provisioning"): (((330, 85), (330, 178)), (338, 130), "start"),
    ("provisioning", "ready"): (((310, 286), (310, 394)), (302, 344), "end"),
    ("ready", "provisioning"): (((352, 395), (352, 287)), (360, 344), "start"),
    ("ready", "running"): (((330, 445), (330, 535)), (338, 495), "start"),
    ("running", FINISHED): (((330, 585), (330, 665)), (338, 630), "start"),
    ("provisioning", "queued"): (((225, 210), (185, 210), (185, 70), (233, 70)), (0, 0), ""),
    ("ready", "queued"): (((240, 410), (185, 410), (185, 70), (233, 70)), (0, 0), ""),
    ("running", "queued"): (((235, 550), (185, 550), (185, 70), (233, 70)), (177, 310), "end"),
    ("evicting", "queued"): (((50, 525), (50, 50), (233, 50)), (58, 310), "start"),
    ("running", "evicting"): (((235, 572), (153, 572)), (194, 592), "middle"),
    ("evicting", FINISHED): (((85, 595), (85, 690), (233, 690)), (93, 660), "start"),
    ("provisioning", "backing_off"): (((435, 215), (600, 215), (600, 185)), (452, 207), "start"),
    ("ready", "backing_off"): (
        ((420, 405), (505, 405), (505, 275), (650, 275), (650, 185)),
        (578, 292),
        "start",
    ),
    ("running", "backing_off"): (((420, 560), (735, 560), (735, 165), (710, 165)), (727, 540), "end"),
    ("backing_off", "queued"): (((625, 115), (625, 60), (427, 60)), (525, 52), "middle"),
    ("provisioning", "refused"): (((435, 250), (570, 250), (570, 385)), (578, 345), "start"),
    ("ready", "refused"): (((420, 430), (540, 430)), (480, 450), "middle"),
    ("refused", "queued"): (
        ((690, 385), (690, 215), (760, 215), (760, 20), (330, 20), (330, 35)),
        (650, 38),
        "middle",
    ),
}
_KINDS: Final = {"controller": "a", "Kueue": "b"}


def picture() -> str:
    life = walk()
    drawing = Drawing(
        780,
        790,
        "The life of a gang",
        "A state diagram. "
        + " ".join(f"{way.before} to {way.after}: {way.by}." for way in sorted(life.ways)),
    )
    for ways in _by_ends(life).values():
        _draw(drawing, ways)
    for state in sorted(life.states):
        drawing.box(_box(state, life))
    drawing.lines(Point(20, 750), ["■ Muster's controller, by a step of its state machine"], kind="small a")
    drawing.lines(Point(390, 750), ["■ Kueue, by a condition of the Workload"], kind="small b")
    drawing.lines(Point(20, 772), ["■ the job by its end, or a person by spec.active"], kind="small c")
    return drawing.svg()


def _by_ends(life: Life) -> dict[tuple[str, str], list[Way]]:
    found: dict[tuple[str, str], list[Way]] = defaultdict(list)
    for way in sorted(life.ways):
        found[way.before, way.after].append(way)
    return found


def _draw(drawing: Drawing, ways: list[Way]) -> None:
    ends = (ways[0].before, ways[0].after)
    assert ends in _ROUTES, f"a new way: give {ends} a place in _ROUTES of {__name__}"
    corners, at, anchor = _ROUTES[ends]
    kind = _KINDS.get(ways[0].actor, "c")
    drawing.arrow([Point(*corner) for corner in corners], kind=kind)
    if anchor:
        drawing.lines(Point(*at), [way.by for way in ways], kind=f"small {kind}", anchor=anchor)


def _box(state: str, life: Life) -> Box:
    if state == "provisioning":
        stays = sorted(step for at, step in life.steps if at == state and not _leads_out(step, state, life))
        lines = ("holds quota, gathers capacity;", "steps that stay here:", *_pairs(stays))
        return Box(at=_AT[state], title=state, lines=lines, width=210)
    width = {"evicting": 135, "backing_off": 165, "refused": 165}.get(state, 190)
    return Box(at=_AT[state], title=state, lines=_ABOUT[state], width=width, kind=_border(state))


def _leads_out(step: str, state: str, life: Life) -> bool:
    return any(way.before == state and way.by == step for way in life.ways)


def _pairs(steps: list[str]) -> tuple[str, ...]:
    return tuple(", ".join(steps[index : index + 2]) for index in range(0, len(steps), 2))


def _border(state: str) -> str:
    return {"running": "good", "refused": "bad"}.get(state, "")
