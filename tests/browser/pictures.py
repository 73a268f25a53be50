"""Takes the pictures of the report's page: `python -m tests.browser.pictures docs/pictures`.

A picture carries the digest of the page that it shows, so that a test finds it stale without a browser:
pixels differ between machines, the page does not. One that is current is left as it is.
"""

import hashlib
import io
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

from PIL import Image, PngImagePlugin
from playwright.sync_api import Browser

from tests.browser.chromium import chromium
from tests.browser.pages import reviewed

# Names of the PNG's text chunks.
_DIGEST: Final = "Page"
_SCRIPT: Final = "Software"
_DAY: Final = "Creation Time"


@dataclass(frozen=True, slots=True)
class Shot:
    """A window on the page, from its top."""

    width: int
    height: int
    scheme: Literal["light", "dark"]

    def digest(self, page: str) -> str:
        return hashlib.sha256(f"{self}\n{page}".encode()).hexdigest()


SHOTS: Final[Mapping[str, Shot]] = MappingProxyType(
    {
        "page-phone.png": Shot(390, 700, "light"),
        "page-wide-dark.png": Shot(1180, 470, "dark"),
        "page-wide-light.png": Shot(1180, 470, "light"),
    }
)


def is_current(path: Path) -> bool:
    """Whether a picture shows the page as it is."""
    if not path.exists():
        return False
    with Image.open(path) as picture:
        return bool(picture.info.get(_DIGEST) == SHOTS[path.name].digest(reviewed()))


def main(folder: Path) -> None:
    stale = [name for name in SHOTS if not is_current(folder / name)]
    if not stale:
        return
    with chromium() as browser:
        for name in stale:
            _take(browser, SHOTS[name], folder / name)


def _take(browser: Browser, shot: Shot, path: Path) -> None:
    html = reviewed()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "page.html")
        file.write_text(html, encoding="utf-8")
        page = browser.new_page(
            viewport={"width": shot.width, "height": shot.height}, color_scheme=shot.scheme
        )
        page.goto(file.as_uri())
        taken = page.screenshot()
        page.close()
    said = PngImagePlugin.PngInfo()
    said.add_text(_DIGEST, shot.digest(html))
    said.add_text(_SCRIPT, "python -m tests.browser.pictures")
    said.add_text(_DAY, datetime.now(UTC).date().isoformat())
    with Image.open(io.BytesIO(taken)) as picture:
        # A page of few colours takes a third of the space.
        picture.convert("RGB").quantize(256).save(path, optimize=True, pnginfo=said)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
