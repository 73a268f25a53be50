"""The floors of the house: which package may import which, from the contract that `make check` holds."""

import tomllib
from pathlib import Path
from typing import Final

from tests.pictures.drawing import Box, Drawing, Point

_ROOT: Final = Path(__file__).resolve().parents[2]
_STEP: Final = 58


def floors() -> list[list[str]]:
    """From the top. Packages of one floor do not import each other."""
    settings = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (layers,) = (each["layers"] for each in contracts if each["type"] == "layers")
    return [[name.strip().removeprefix("muster.") for name in layer.split("|")] for layer in layers]


def picture() -> str:
    found = floors()
    drawing = Drawing(
        780,
        _STEP * len(found) + 60,
        "The packages of Muster and their imports",
        "Imports run downwards. From the top: " + "; ".join(", ".join(floor) for floor in found) + ".",
    )
    for number, floor in enumerate(found):
        y = 45 + _STEP * number
        gap = 700 // len(floor)
        for place, name in enumerate(floor):
            drawing.box(Box(at=Point(70 + gap * place + gap // 2, y), title=name, width=min(gap - 14, 190)))
    bottom = 45 + _STEP * (len(found) - 1)
    drawing.arrow([Point(35, 45), Point(35, bottom)], kind="a")
    drawing.text(Point(390, bottom + 48), "An import may go down, never up or sideways.", kind="small")
    return drawing.svg()
