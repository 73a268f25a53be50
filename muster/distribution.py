"""The Python package that Muster is installed as: its name, its version and the file that it came from.

The import package and the command are `muster`. On PyPI that name belongs to another project
(Source: https://pypi.org/project/muster/, read 2026-11-27), so the distribution has a name of its own.
"""

from __future__ import annotations

import json
import shlex
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

from muster.paths import IMPORT_ROOT

NAME: Final = "muster-gpu"
"""As pip and pyproject.toml have it."""

_CHECKOUT: Final = IMPORT_ROOT / "pyproject.toml"


def version() -> str:
    """Of the installed package; of a checkout what its pyproject.toml has, installed or not."""
    if _CHECKOUT.is_file():
        return str(tomllib.loads(_CHECKOUT.read_text(encoding="utf-8"))["project"]["version"])
    return metadata.version(NAME)


def wheel_name(version: str) -> str:
    """The wheel's file name. https://packaging.python.org/en/latest/specifications/binary-distribution-format/"""
    return f"{NAME.replace('-', '_')}-{version}-py3-none-any.whl"


def installed_wheel(version: str) -> Path | None:
    """The file that `pip install FILE` recorded (PEP 610), if it is still there and of this version."""
    try:
        recorded = metadata.distribution(NAME).read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return None
    url = urlsplit(json.loads(recorded).get("url", "")) if recorded else urlsplit("")
    # pip records a project's relative path with a root. The environment lies in the project.
    is_relative = url.path.startswith("/./")
    wheel = Path(sys.prefix).parent / url.path[3:] if is_relative else Path(url2pathname(url.path))
    is_ours = url.scheme == "file" and wheel.name == wheel_name(version)
    return wheel if is_ours and wheel.is_file() else None


def install_command(extras: str) -> str:
    """The shell command that adds extras, such as `check,local`, to the running interpreter's Muster.

    A name alone would let pip of another environment install whatever an index has under that name.
    """
    if _CHECKOUT.is_file():
        source = ["--editable", f"{IMPORT_ROOT}[{extras}]"]
    elif wheel := installed_wheel(version()):
        source = [f"{wheel}[{extras}]"]
    else:  # The file is gone, or it came from an index. The installed version satisfies the requirement.
        source = [f"{NAME}[{extras}]=={version()}"]
    return shlex.join([sys.executable, "-m", "pip", "install", *source])
