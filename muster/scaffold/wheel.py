"""The wheel that Muster was installed from: a project takes it along where no package index has it."""

import json
import shutil
from importlib import metadata
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

from muster.errors import MusterError

FOLDER: Final = "wheels"
"""In a project: where its requirements.txt lets pip look first."""


def installed_wheel(version: str) -> Path | None:
    """The file that `pip install FILE` recorded (PEP 610), if it is still there and of this version."""
    try:
        recorded = metadata.distribution("muster").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return None
    url = urlsplit(json.loads(recorded).get("url", "")) if recorded else urlsplit("")
    wheel = Path(url2pathname(url.path))
    is_ours = wheel.name.startswith(f"muster-{version}-") and wheel.suffix == ".whl"
    return wheel if url.scheme == "file" and is_ours and wheel.is_file() else None


def take_along(wheel: Path, folder: Path) -> tuple[Path, bool]:
    """Copy the wheel into the project. Returns its place, and False if it was there already."""
    copy = folder / FOLDER / wheel.name
    if copy.exists():
        return copy, False
    try:
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(wheel, copy)
    except OSError as error:
        fix = f"copy {wheel} into {copy.parent} yourself."
        raise MusterError(f"{copy} cannot be written: {error.strerror}.", fix=fix) from None
    return copy, True
