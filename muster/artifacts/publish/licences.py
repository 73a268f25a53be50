"""The licences of what Muster's images and programs contain: `make licences` writes docs/licences.md.

Responsible for: which packages and modules the images and the players of the last build hold, and under which
licence each is published. Python packages state it in their metadata; of a Go module, the licence file in the
module cache is recognised by its wording. What is not recognised is listed as such, never guessed.
"""

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path
from typing import Final

from muster.artifacts.publish.go_modules import build_info
from muster.errors import ExitCode, MusterError
from muster.local.build.cache import cache_root
from muster.local.build.images import BINARY_IMAGES, PLAYER

UNKNOWN: Final = "not recognised"
_BUILD: Final = "run `muster local build` on this machine first; for one program, with `--only NAME`."
# Programs of ours that play recorded work by the schedulers' own code.
_PLAYERS: Final = (PLAYER, "kai-player")
# SPDX identifier -> words that occur in its text and in no text before it in this table, in lower case.
_WORDING: Final[Mapping[str, tuple[str, ...]]] = {
    "Apache-2.0": ("apache license", "version 2.0"),
    "MPL-2.0": ("mozilla public license", "2.0"),
    "BSD-3-Clause": ("redistribution and use in source and binary forms", "endorse or promote"),
    "BSD-2-Clause": ("redistribution and use in source and binary forms",),
    "MIT": ("permission is hereby granted, free of charge",),
    "ISC": ("permission to use, copy, modify, and", "distribute this software for any purpose"),
    "CC0-1.0": ("cc0 1.0 universal",),
    "Unlicense": ("this is free and unencumbered software",),
}
_CLASSIFIER: Final = "License :: OSI Approved :: "
_FILE_NAMES: Final = ("LICENSE*", "LICENCE*", "COPYING*", "License*", "license*")
_HEAD: Final = """\
# Licences of third parties

Written by `make licences` from the images of the last `muster local build`; do not edit it.

Muster itself is licensed under the Apache License 2.0 ([LICENSE](../LICENSE), [NOTICE](../NOTICE)).

An image whose heading does not end in "from scratch" also holds packages of Debian 12 (bookworm). Their
licences are in `/usr/share/doc/PACKAGE/copyright` of the image. The two programs are built where a command
needs them; the image of a recorder that forecasts holds `kueue-player` too.

The full text of the licence of a Python package is in its `.dist-info` folder inside the image, that of a Go
module in the module at that version.
"""


@dataclass(frozen=True, slots=True, order=True)
class Part:
    """A package or module inside an image."""

    name: str
    version: str
    licence: str


def page(images: Mapping[str, Iterable[Part]]) -> str:
    """The page. `images`: heading -> what the image holds."""
    sections = [_HEAD]
    for heading, parts in images.items():
        rows = [f"| {part.name} | {part.version} | {part.licence} |" for part in sorted(set(parts))]
        sections.append(
            "\n".join([f"## {heading}", "", "| part | version | licence |", "|---|---|---|", *rows, ""])
        )
    return "\n".join(sections)


def recognise(text: str) -> str:
    """The SPDX identifier of a licence's text."""
    flat = " ".join(text.lower().split())
    return next((name for name, words in _WORDING.items() if all(word in flat for word in words)), UNKNOWN)


def python_licence(metadata: str) -> str:
    """What the METADATA of a Python package states."""
    fields = HeaderParser().parsestr(metadata)
    if stated := fields.get("License-Expression"):
        return str(stated)
    classifiers = [
        value.removeprefix(_CLASSIFIER)
        for value in fields.get_all("Classifier", [])
        if value.startswith(_CLASSIFIER)
    ]
    if classifiers:
        return ", ".join(classifiers)
    text = str(fields.get("License") or "").strip()
    return text if text and "\n" not in text and len(text) < 60 else recognise(text)


def python_parts(site: Path) -> Iterator[Part]:
    """The packages of a `site` folder."""
    for file in site.glob("*.dist-info/METADATA"):
        metadata = file.read_text(encoding="utf-8")
        fields = HeaderParser().parsestr(metadata)
        licence = python_licence(metadata)
        if licence == UNKNOWN:
            licence = _of_files(file.parent, ("licenses/*", *_FILE_NAMES))
        yield Part(str(fields["Name"]), str(fields["Version"]), licence)


def go_parts(program: Path, modules: Path) -> Iterator[Part]:
    """The modules that are linked into a program."""
    for name, version in build_info(program.read_bytes(), name=str(program)).modules:
        yield Part(name, version, _of_files(modules / f"{_escaped(name)}@{version}", _FILE_NAMES))


def _of_files(folder: Path, patterns: Iterable[str]) -> str:
    texts = [
        file.read_text("utf-8", "replace")
        for each in patterns
        for file in folder.glob(each)
        if file.is_file()
    ]
    found = sorted({recognise(text) for text in texts} - {UNKNOWN})
    return " AND ".join(found) if found else UNKNOWN


def _escaped(module: str) -> str:
    """The folder of a module in the module cache: https://go.dev/ref/mod#module-cache."""
    return re.sub("[A-Z]", lambda letter: f"!{letter.group().lower()}", module)


def _output(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError) as error:
        problem = f"{' '.join(command)}: {error}"
        raise MusterError(problem, fix="install Go.", exit_code=ExitCode.OUTSIDE) from None


def _newest(cache: Path, pattern: str) -> Path:
    found = max(cache.glob(pattern), key=lambda path: path.stat().st_mtime, default=None)
    if found is None:
        raise MusterError(f"{cache}/{pattern} is not there.", fix=_BUILD)
    return found


def _images(cache: Path, modules: Path) -> dict[str, list[Part]]:
    found = {
        f"Image `{name}` (Python)": list(python_parts(_newest(cache, f"python/{name}/*/site")))
        for name in ("gang-admission", "ray")
    }
    for name in BINARY_IMAGES:
        parts = list(go_parts(_newest(cache, f"bin/{name}/*/{name}"), modules))
        if parts:
            found[f"Image `{name}` (Go, from scratch)"] = parts
    for name in _PLAYERS:
        program = _newest(cache, f"bin/{name}/*/{name}")
        found[f"Program `{name}` (Go)"] = list(go_parts(program, modules))
    return found


def main() -> None:
    cache = cache_root()
    modules = Path(_output(["go", "env", "GOMODCACHE"]).strip())
    sys.stdout.write(page(_images(cache, modules)))


if __name__ == "__main__":
    main()
