"""Bills of materials in CycloneDX 1.6.

That of an image lists the distribution's packages, the Python packages, and the Go modules of the player
where it has one. They are read from the image's own layers, so that the list always matches the image. The
same image gives the same bytes.
https://cyclonedx.org/docs/1.6/json/ and https://github.com/package-url/purl-spec name the fields.
"""

import gzip
import io
import json
import re
import subprocess
import sys
import tarfile
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from muster.artifacts.oci.image import Image
from muster.errors import ExitCode, MusterError
from muster.local.builder.cache import cache_root
from muster.local.builder.images import BINARY_IMAGES, PLAYER, PLAYER_PLACE

# The modules in a Go program, as the linker has written them into it.
# From Go 1.18 on, a header of 32 bytes is followed by Go's version and the modules, each as its length and
# its text: https://go.dev/src/debug/buildinfo/buildinfo.go

_MAGIC: Final = b"\xff Go buildinf:"
_FLAGS: Final = len(_MAGIC) + 1
_IS_INLINE: Final = 2
_HEADER: Final = 32
# The header lies at a multiple of this. The magic bytes elsewhere are those of a program that looks for them.
_ALIGNED: Final = 16
_UNVERSIONED: Final = "(devel)"
# Marks at both ends of the list of modules.
_MARK: Final = 16


@dataclass(frozen=True, slots=True)
class BuildInfo:
    """`go`: the version of Go, such as "1.26.8". `modules`: path and version of each linked module."""

    go: str
    modules: tuple[tuple[str, str], ...]


def build_info(program: bytes, *, name: str) -> BuildInfo:
    """Of a program for any processor. MusterError where it is none of Go; `name` is for the message."""
    start = program.find(_MAGIC)
    while start >= 0:
        if start % _ALIGNED == 0 and program[start + _FLAGS] & _IS_INLINE:
            go, after = _text(program, start + _HEADER)
            listed, _ = _text(program, after)
            version = go.decode().removeprefix("go")
            return BuildInfo(version, linked_modules(listed[_MARK:-_MARK].decode()))
        start = program.find(_MAGIC, start + 1)
    raise MusterError(f"{name}: lists no Go modules.", fix="build it again with Go 1.18 or later.")


def linked_modules(listed: str) -> tuple[tuple[str, str], ...]:
    """Of a program's list: the module of the program itself, and each dependency in a line. `=>` replaces the
    one in the line before, unless by a folder of the machine that built it. What has no version is not
    listed.
    """
    found: list[tuple[str, str]] = []
    for line in listed.splitlines():
        kind, *rest = line.split() or [""]
        if kind in ("mod", "dep"):
            found.append((rest[0], rest[1]))
        elif kind == "=>" and rest[1] != _UNVERSIONED:
            found[-1] = (rest[0], rest[1])
    return tuple((name, version) for name, version in found if version != _UNVERSIONED)


def _text(program: bytes, at: int) -> tuple[bytes, int]:
    """The text at a place and the place behind it. Its length has seven bits in a byte, the lowest first."""
    length = shift = 0
    while True:
        byte = program[at]
        length |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return program[at : at + length], at + length


MEDIA_TYPE: Final = "application/vnd.cyclonedx+json"
# All of them in one file, or, where packages were only unpacked, one file for each.
_DPKG: Final = ("var/lib/dpkg/status", "var/lib/dpkg/status.d/")
_RELEASE: Final = "usr/lib/os-release"
_SITE: Final = "opt/muster/site/"
_METADATA: Final = ".dist-info/METADATA"
_PROGRAM: Final = PLAYER_PLACE.lstrip("/")
_NAME: Final = "gang-admission"


@dataclass(frozen=True, slots=True, order=True)
class Package:
    """`purl` is the package's origin; `licence` is empty where the package does not name one."""

    purl: str
    name: str
    version: str
    licence: str = ""

    def component(self) -> dict[str, Any]:
        fields = {"type": "library", "bom-ref": self.purl, "name": self.name, "version": self.version}
        licences = {"licenses": [{"license": {"name": self.licence}}]} if self.licence else {}
        return {**fields, "purl": self.purl, **licences}


def bill(image: Image, *, created: str) -> bytes:
    """The document about this very image."""
    contents = _contents(image)
    program = contents.pop(_PROGRAM, None)
    files = {place: content.decode(errors="replace") for place, content in contents.items()}
    release = _release(files)
    modules = () if program is None else _go(program)
    packages = sorted({*_debian(files, release), *_python(files), *modules})
    reference = f"pkg:oci/{_NAME}@{quote(image.digest, safe='')}?arch={image.architecture}"
    subject = {
        "type": "container",
        "bom-ref": reference,
        "name": _NAME,
        "version": image.digest,
        "purl": reference,
    }
    return document(subject, packages, others=[_base(image, release)], created=created)


def document(
    subject: Mapping[str, Any],
    packages: Sequence[Package],
    *,
    others: Sequence[Mapping[str, Any]] = (),
    created: str,
) -> bytes:
    """The bill of `subject`, a component that consists of `packages`; `others` are listed beside them."""
    reference = str(subject["bom-ref"])
    written = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, reference)}",
        "version": 1,
        "metadata": {"timestamp": created, "component": subject},
        "components": [*(package.component() for package in packages), *others],
        "dependencies": [{"ref": reference, "dependsOn": [package.purl for package in packages]}],
    }
    return json.dumps(written, indent=1, sort_keys=True).encode()


def pypi(name: str, version: str, licence: str = "") -> Package:
    """A package of the Python Package Index. Its reference has the normalised name."""
    normal = name.lower().replace("_", "-").replace(".", "-")
    return Package(f"pkg:pypi/{normal}@{quote(version)}", name, version, licence)


def _golang(name: str, version: str) -> Package:
    """A Go module. Package URLs of Go are in lower case, whatever the module is called."""
    return Package(f"pkg:golang/{quote(name.lower())}@{quote(version, safe='')}", name, version)


def _base(image: Image, release: Mapping[str, str]) -> dict[str, Any]:
    """The root file system below everything, by its digest."""
    digest: str = image.config["rootfs"]["diff_ids"][0]
    return {
        "type": "operating-system",
        "bom-ref": f"base-{digest}",
        "name": release.get("ID", "unknown"),
        "version": release.get("VERSION_ID", "unknown"),
        "hashes": [{"alg": "SHA-256", "content": digest.removeprefix("sha256:")}],
    }


def _contents(image: Image) -> dict[str, bytes]:
    """The files that list packages. A file of an upper layer replaces the same file of a lower one."""
    found: dict[str, bytes] = {}
    for layer in json.loads(image.manifest)["layers"]:
        with tarfile.open(fileobj=io.BytesIO(gzip.decompress(image.blobs[layer["digest"]]))) as tar:
            for member in tar:
                place = member.name.removeprefix("./")
                if member.isfile() and _lists_packages(place) and (content := tar.extractfile(member)):
                    found[place] = content.read()
    return found


def _lists_packages(place: str) -> bool:
    is_python = place.startswith(_SITE) and place.endswith(_METADATA)
    return is_python or _lists_debian(place) or place in (_RELEASE, _PROGRAM)


def _lists_debian(place: str) -> bool:
    whole, each = _DPKG
    return place == whole or place.startswith(each)


def _release(files: Mapping[str, str]) -> Mapping[str, str]:
    """https://www.freedesktop.org/software/systemd/man/os-release.html"""
    lines = files.get(_RELEASE, "").splitlines()
    return {name: value.strip('"') for name, _, value in (line.partition("=") for line in lines) if value}


def _debian(files: Mapping[str, str], release: Mapping[str, str]) -> Iterator[Package]:
    distribution = f"{release.get('ID', 'debian')}-{release.get('VERSION_ID', '')}"
    lists = [text for place, text in files.items() if _lists_debian(place)]
    for stanza in (stanza for text in lists for stanza in text.split("\n\n")):
        fields = HeaderParser().parsestr(stanza)
        name, version = fields.get("Package"), fields.get("Version")
        if not name or not version or not fields.get("Status", "install").startswith("install"):
            continue
        purl = f"pkg:deb/{release.get('ID', 'debian')}/{quote(name)}@{quote(version, safe='')}"
        yield Package(f"{purl}?arch={fields.get('Architecture', '')}&distro={distribution}", name, version)


def _python(files: Mapping[str, str]) -> Iterator[Package]:
    for place, text in files.items():
        if place.endswith(_METADATA):
            fields = HeaderParser().parsestr(text)
            name, version = str(fields["Name"]), str(fields["Version"])
            licence = fields.get("License-Expression") or fields.get("License") or ""
            yield pypi(name, version, licence.splitlines()[0] if licence else "")


def _go(program: bytes) -> Iterator[Package]:
    """The standard library is linked in as well, and lists of vulnerabilities name it."""
    info = build_info(program, name=PLAYER_PLACE)
    yield _golang("stdlib", info.go)
    for name, version in info.modules:
        yield _golang(name, version)


# The licences of what Muster's images and programs contain: `make licences` writes docs/licences.md.
# Python packages state it in their metadata; of a Go module, the licence file in the module cache is
# recognised by its wording. What is not recognised is listed as such, never guessed.

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

<!-- Written by `make licences` from the images of the last `muster local build`; do not edit it. -->

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
        by_licence: dict[str, list[str]] = {}
        for part in sorted(set(parts)):
            by_licence.setdefault(part.licence, []).append(f"{part.name}@{part.version}")
        lines = (f"- {licence}: {', '.join(named)}" for licence, named in sorted(by_licence.items()))
        sections.append("\n".join([f"## {heading}", "", *lines, ""]))
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
