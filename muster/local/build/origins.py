"""How each program came here: compiled, downloaded, imported with a bundle, or found on PATH.

Responsible for: reading that from a program's path and the record beside it. Not responsible for: choosing
a program.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from muster.local.build.cache import SUMS, file_sha256
from muster.local.build.versions import Program

RECORD: Final = "origin.json"
"""Beside a program that was not compiled here."""


class How(StrEnum):
    BUILT = "built"
    DOWNLOADED = "downloaded"
    IMPORTED = "imported"
    FOUND = "found on PATH"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """`sha256` is the program's own, `source` an address or a bundle, `checked` what confirmed a download."""

    how: How
    version: str
    sha256: str
    source: str = ""
    checked: str = ""

    def record(self) -> dict[str, str]:
        return {key: str(value) for key, value in asdict(self).items() if value}


def origin_of(program: Program, path: Path, *, cache: Path) -> Origin:
    """Read the origin of the program at `path`; `cache` is the cache's root."""
    if not path.is_relative_to(cache):
        return Origin(how=How.FOUND, version="", sha256=file_sha256(path), source=str(path))
    sha256 = _recorded_sum(path)
    beside = path.parent / RECORD
    if not beside.is_file():
        return Origin(how=How.BUILT, version=program.version, sha256=sha256)
    found: Mapping[str, str] = json.loads(beside.read_text(encoding="utf-8"))
    return Origin(
        how=How(found["how"]),
        version=found.get("version", program.version),
        sha256=sha256,
        source=found.get("source", ""),
        checked=found.get("checked", ""),
    )


def _recorded_sum(path: Path) -> str:
    for line in (path.parent / SUMS).read_text(encoding="utf-8").splitlines():
        digest, _, name = line.partition("  ")
        if name == path.name:
            return digest
    return file_sha256(path)
