"""Muster's wheel in a project: requirements.txt names the file and its digest, so that pip asks no index."""

import hashlib
import shutil
from pathlib import Path
from typing import Final

from muster.distribution import installed_wheel, wheel_name
from muster.errors import MusterError

FOLDER: Final = "wheels"


def wheel_of(folder: Path, version: str, *, prefer_installed: bool) -> Path | None:
    """The wheel for the project in `folder`: its copy, or what Muster was installed from."""
    copy = folder / FOLDER / wheel_name(version)
    places = [copy if copy.is_file() else None, installed_wheel(version)]
    if prefer_installed:
        places.reverse()
    return next((each for each in places if each is not None), None)


def digest_of(wheel: Path) -> str:
    """SHA-256 in hex."""
    with wheel.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def take_along(wheel: Path, folder: Path) -> Path | None:
    """Copy the wheel into the project. Returns the copy; None if the project has the same file already."""
    copy = folder / FOLDER / wheel.name
    try:
        if copy.is_file() and digest_of(copy) == digest_of(wheel):
            return None
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(wheel, copy)
    except OSError as error:
        fix = f"copy {wheel} into {copy.parent} yourself."
        raise MusterError(f"{copy} cannot be written: {error.strerror}.", fix=fix) from None
    return copy
