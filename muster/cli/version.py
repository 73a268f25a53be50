"""Which version of Muster runs."""

from __future__ import annotations

import tomllib
from importlib import metadata

from muster.paths import IMPORT_ROOT


def version() -> str:
    """Of the installed package; of a checkout that is not installed, what its pyproject.toml has."""
    checkout = IMPORT_ROOT / "pyproject.toml"
    if checkout.is_file():
        return str(tomllib.loads(checkout.read_text(encoding="utf-8"))["project"]["version"])
    return metadata.version("muster")
