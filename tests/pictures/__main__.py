"""Write every picture into a folder: python -m tests.pictures docs/pictures."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tests.pictures import layers, life, loop, quota, terminal, waiting

PICTURES: Final[Mapping[str, Callable[[], str]]] = MappingProxyType(
    {
        "broken.svg": terminal.broken,
        "inference.svg": terminal.inference,
        "layers.svg": layers.picture,
        "life.svg": life.picture,
        "loop.svg": loop.wide,
        "loop-phone.svg": loop.narrow,
        "quota.svg": quota.picture,
        "terminal.svg": terminal.wide,
        "terminal-phone.svg": terminal.narrow,
        "waiting.svg": waiting.picture,
    }
)


def main(folder: Path) -> None:
    for name, picture in PICTURES.items():
        (folder / name).write_text(picture(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
