"""Writes the generated pages: `python -m muster.reference docs/reference`."""

from __future__ import annotations

import sys
from pathlib import Path

from muster.reference.pages import PAGES


def main(folder: Path) -> None:
    for name, page in PAGES.items():
        (folder / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
