"""Records the digests of released programs in versions.toml.

Responsible for: reading each publisher's checksum file for every processor, and writing `sha256` into the
table of the release. Not responsible for: downloading a program and comparing it (see releases.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from muster.local.build.cache import Cache
from muster.local.build.children import Children
from muster.local.build.progress import Board
from muster.local.build.releases import Releases
from muster.local.build.versions import load
from muster.local.errors import LocalClusterError
from muster.paths import VERSIONS_FILE

ARCHITECTURES: Final = ("amd64", "arm64")


def pin(*, path: Path = VERSIONS_FILE, releases: Releases | None = None) -> dict[str, dict[str, str]]:
    """Write every digest into the file, or none. Returns what is new or changed: program, processor, digest.

    Raises DownloadError when a publisher does not answer.
    """
    reader = releases or Releases(Cache(), Children(), board=Board(), arch=ARCHITECTURES[0])
    text = path.read_text(encoding="utf-8")
    changed: dict[str, dict[str, str]] = {}
    for name, program in load(path).programs.items():
        if program.release is None:
            continue
        release = program.release
        found = {arch: reader.published_digest(release, arch=arch) for arch in ARCHITECTURES}
        text = with_digests(text, name=name, digests=found)
        if fresh := {arch: value for arch, value in found.items() if release.digests.get(arch) != value}:
            changed[name] = fresh
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as problem:
        raise LocalClusterError(
            str(path), f"cannot be written ({problem.strerror})", fix="run it in a checkout of Muster"
        ) from problem
    return changed


def with_digests(text: str, *, name: str, digests: Mapping[str, str]) -> str:
    """The text of versions.toml with these digests in the table [releases.NAME]; all else stays as it is."""
    written = ", ".join(f"{arch} = {json.dumps(digest)}" for arch, digest in digests.items())
    lines = text.splitlines(keepends=True)
    start = lines.index(f"[releases.{name}]\n") + 1
    end = next((at for at in range(start, len(lines)) if re.match(r"\s*(\[|#|$)", lines[at])), len(lines))
    table = [line for line in lines[start:end] if not line.startswith("sha256 = ")]
    return "".join([*lines[:start], *table, f"sha256 = {{{written}}}\n", *lines[end:]])
