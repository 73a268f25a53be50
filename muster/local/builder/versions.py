"""muster/artifacts/data/versions.toml as typed values.

Responsible for: reading that file and refusing an incomplete one. It fetches and builds nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from muster.errors import ExitCode
from muster.local import LocalClusterError
from muster.local.builder.cache import SUMS, file_sha256
from muster.paths import VERSIONS_FILE

KUBERNETES_VARIABLE: Final = "MUSTER_KUBERNETES"
"""A minor version of [kubernetes] in versions.toml; unset for the one that Muster is developed with."""
RAY_VARIABLE: Final = "MUSTER_RAY"
"""A minor version of [rays] in versions.toml; unset for the one in the image of the stories."""
_PROGRAMS: Final = Path(__file__).parent / "programs"
_KUBERNETES: Final = "kubernetes"


@dataclass(frozen=True, slots=True)
class Patch:
    """One file of a module that is changed while a program is compiled.

    `source` replaces the whole file, to leave out what Muster never runs: the program then compiles faster.
    Without a source, `new` replaces the one occurrence of `old`.
    """

    module: str
    version: str
    file: str
    source: Path | None = None
    old: str = ""
    new: str = ""

    def ingredients(self) -> tuple[bytes | str, ...]:
        """What the patch adds to the key of the program."""
        changes: tuple[bytes | str, ...] = (
            (self.source.read_bytes(),) if self.source else (self.old, self.new)
        )
        return (f"{self.module}@{self.version}/{self.file}", *changes)

    def apply(self, file: Path) -> None:
        """Change `file`, a copy of the module's. Raises LocalClusterError when the edit does not fit."""
        if self.source:
            shutil.copyfile(self.source, file)
            return
        text = file.read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise LocalClusterError(
                f"{self.module}@{self.version}/{self.file}",
                f"contains the text that the patch replaces {text.count(self.old)} times, not once",
                fix="adapt `patch.old` in versions.toml to this version of the module",
            )
        file.write_text(text.replace(self.old, self.new), encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Release:
    """Where a program's publisher offers it: `{version}`, `{number}` (no v) and `{arch}` are filled in.

    `checksums` is the publisher's file of SHA-256 digests, `member` the program's path in an archive (empty
    when the file is the program), `digests` what was recorded for each processor.
    """

    url: str
    checksums: str
    member: str
    version: str
    names: Mapping[str, str]
    digests: Mapping[str, str]

    def filled(self, text: str, *, arch: str) -> str:
        return text.format(
            version=self.version, number=self.version.removeprefix("v"), arch=self.names.get(arch, arch)
        )


@dataclass(frozen=True, slots=True)
class Program:
    """A program built from a Go module; `seconds` and `packages` only feed the progress display.

    `on_demand`: no local cluster needs it, so it is built only when it is named. `variant`: the minor version
    of Kubernetes, where it is not the usual one.
    """

    name: str
    directory: Path
    module: str
    version: str
    package: str
    stamps: tuple[tuple[str, str], ...]
    accept: str
    beside: tuple[str, ...]
    seconds: float
    packages: int
    on_demand: bool = False
    patch: Patch | None = None
    release: Release | None = None
    variant: str = ""

    @property
    def folder(self) -> str:
        """Its name in the cache. A variant is never taken for the usual program."""
        return f"{self.name}-{self.variant}" if self.variant else self.name

    @property
    def ldflags(self) -> str:
        """Symbols are left out, which makes linking twice as fast."""
        return " ".join(["-s", "-w", *(f"-X {key}={value}" for key, value in self.stamps)])


@dataclass(frozen=True, slots=True)
class Asset:
    """Files copied out of a Go module: `keep` names the children of `path` (all of them when empty),
    `as_json` a folder whose YAML files become JSON.

    `on_demand`: as the program that they belong to.
    """

    name: str
    directory: Path
    module: str
    version: str
    path: str
    keep: tuple[str, ...]
    as_json: str = ""
    on_demand: bool = False


@dataclass(frozen=True, slots=True)
class Package:
    """A package of the distribution: `command` is a program or a file by which it is recognised."""

    name: str
    command: str
    floor: str


@dataclass(frozen=True, slots=True)
class PythonBase:
    suite: str
    python: str
    packages: tuple[str, ...]
    revision: int
    snapshot: str
    sha256: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Versions:
    """The whole file. `requirements` names the file of Python packages of each image that has some."""

    ray: str
    requirements: Mapping[str, str]
    python_base: PythonBase
    programs: Mapping[str, Program]
    assets: Mapping[str, Asset]
    packages: Mapping[str, Package]


def load(path: Path = VERSIONS_FILE, *, kubernetes: str | None = None) -> Versions:
    """Read the file; a missing key or a reference to nothing is a LocalClusterError naming it. `kubernetes`
    is a minor version, by default that of MUSTER_KUBERNETES. The one of Ray is that of MUSTER_RAY.
    """
    variant = os.environ.get(KUBERNETES_VARIABLE, "") if kubernetes is None else kubernetes
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as problem:
        raise LocalClusterError(
            str(path), f"cannot be read: {problem}", fix="restore the file from version control"
        ) from problem
    try:
        return _versions(_with_kubernetes(raw, variant) if variant else raw)
    except KeyError as hole:
        raise LocalClusterError(
            str(path), f"key {hole} is missing", fix="see the neighbouring entries for the shape"
        ) from hole


def _with_kubernetes(raw: Mapping[str, Any], variant: str) -> dict[str, Any]:
    """The file with the programs of another minor version of Kubernetes."""
    other = {**_variant(raw[_KUBERNETES], variant, KUBERNETES_VARIABLE), "variant": variant}
    programs = {
        name: {**entry, **other} if entry.get("stamps") == _KUBERNETES else entry
        for name, entry in raw["programs"].items()
    }
    return {**raw, "programs": programs, "stamps": {**raw["stamps"], _KUBERNETES: _stamps(other["version"])}}


def _variant(others: Mapping[str, Any], variant: str, variable: str) -> Mapping[str, Any]:
    if variant not in others:
        raise LocalClusterError(
            f"{variable}={variant}",
            "is no minor version that versions.toml can build",
            fix=f"use {', '.join(sorted(others))}, or unset it",
            exit_code=ExitCode.UNUSABLE,
        )
    found: Mapping[str, Any] = others[variant]
    return found


def _stamps(version: str) -> dict[str, str]:
    base = "k8s.io/component-base/version"
    major, minor, _ = version.removeprefix("v").split(".")
    return {
        f"{base}.gitVersion": version,
        f"{base}.gitMajor": major,
        f"{base}.gitMinor": minor,
        f"{base}.gitCommit": version,
        f"{base}.gitTreeState": "clean",
    }


def _versions(raw: Mapping[str, Any]) -> Versions:
    programs = {
        name: _program(name, entry, raw=raw, source=_PROGRAMS) for name, entry in raw["programs"].items()
    }
    minor = os.environ.get(RAY_VARIABLE, "")
    ray = _variant(raw["rays"], minor, RAY_VARIABLE) if minor else raw["ray"]
    return Versions(
        ray=ray["version"],
        requirements={"ray": f"ray-{minor}.txt" if minor else "ray.txt", "gang-admission": "controller.txt"},
        python_base=_base(raw["python-base"]),
        programs=programs,
        assets={name: _asset(name, entry, programs=programs) for name, entry in raw["assets"].items()},
        packages={
            name: Package(name=name, command=entry["command"], floor=entry["floor"])
            for name, entry in raw["packages"].items()
        },
    )


def _program(name: str, entry: Mapping[str, Any], *, raw: Mapping[str, Any], source: Path) -> Program:
    stamps = dict(raw["stamps"][entry["stamps"]]) if "stamps" in entry else {}
    stamps.update(entry.get("stamp", {}))
    return Program(
        name=name,
        directory=source / entry["directory"],
        module=entry["module"],
        version=entry["version"],
        package=entry["package"],
        stamps=tuple(sorted(stamps.items())),
        accept=entry.get("accept", ""),
        beside=tuple(entry.get("beside", ())),
        seconds=float(entry["seconds"]),
        packages=int(entry["packages"]),
        on_demand=bool(entry.get("on_demand", False)),
        variant=entry.get("variant", ""),
        patch=_patch(entry["patch"], directory=source / entry["directory"]) if "patch" in entry else None,
        release=_release(raw["releases"][name], version=entry["version"])
        if name in raw["releases"]
        else None,
    )


def _patch(entry: Mapping[str, Any], *, directory: Path) -> Patch:
    file, old = entry["file"], entry.get("old", "")
    return Patch(
        module=entry["module"],
        version=entry["version"],
        file=file,
        source=None if old else directory / "patch" / Path(file).name,
        old=old,
        new=entry["new"] if old else "",
    )


def _release(entry: Mapping[str, Any], *, version: str) -> Release:
    return Release(
        url=entry["url"],
        checksums=entry["checksums"],
        member=entry.get("member", ""),
        version=entry.get("version", version),
        names=dict(entry.get("names", {})),
        digests=dict(entry.get("sha256", {})),
    )


def _asset(name: str, entry: Mapping[str, Any], *, programs: Mapping[str, Program]) -> Asset:
    owner = programs[entry["program"]]
    return Asset(
        name=name,
        directory=owner.directory,
        module=entry.get("module", owner.module),
        version=entry.get("version", owner.version),
        path=entry["path"],
        keep=tuple(entry.get("keep", ())),
        as_json=entry.get("as_json", ""),
        on_demand=owner.on_demand,
    )


def _base(entry: Mapping[str, Any]) -> PythonBase:
    return PythonBase(
        suite=entry["suite"],
        python=entry["python"],
        packages=tuple(entry["packages"]),
        revision=int(entry["revision"]),
        snapshot=entry["snapshot"],
        sha256=entry["sha256"],
    )


# How each program came here: compiled, downloaded, imported with a bundle, or found on PATH.

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
