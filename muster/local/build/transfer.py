"""Carrying a whole cache to another machine: which entries a bundle holds.

Responsible for: the parts of a bundle for this Muster's pins, and the digest of those pins.
"""

from __future__ import annotations

import platform
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from muster.local.build import bundle
from muster.local.build.base_image import base_entry
from muster.local.build.bundle import Part
from muster.local.build.cache import Cache, Entry, key_of, seal
from muster.local.build.everything import Programs, Run
from muster.local.build.go import architecture, imported_entry
from muster.local.build.python_packages import packages_entry
from muster.local.build.store import Artifacts, asset_entry
from muster.local.build.versions import Origin, Program, Versions, load
from muster.paths import REQUIREMENTS


def export(target: Path, *, programs: Programs | None = None) -> str:
    """Make what is missing and write everything into one file; returns the file's SHA-256."""
    cache = Cache()
    made = Run(cache, base=None, source=programs).whole()
    with cache.scratch("export") as scratch:
        parts = list(_parts(cache, made, versions=load(), scratch=scratch))
        return bundle.write(target, parts, pins=pins(cache, load()))


def import_(source: Path) -> list[Entry]:
    """Put a bundle's entries into the cache; returns those that the cache lacked."""
    cache = Cache()
    return bundle.read(source, cache, pins=pins(cache, load()))


def pins(cache: Cache, versions: Versions) -> str:
    """A digest of everything that decides which programs, charts and packages this Muster uses."""
    return key_of(*(f"{entry.kind}/{entry.name}/{entry.key}" for entry in _pinned(cache, versions)))


def _pinned(cache: Cache, versions: Versions) -> list[Entry]:
    """Without the images: they follow from these, and from the code of our own controller."""
    programs = [
        imported_entry(cache, program, arch=architecture())
        for program in versions.programs.values()
        if not program.on_demand
    ]
    assets = [asset_entry(cache, asset) for asset in versions.assets.values() if not asset.on_demand]
    return [
        *programs,
        *assets,
        base_entry(cache, versions.python_base, own=None),
        *_packages(cache, versions),
    ]


def _packages(cache: Cache, versions: Versions) -> list[Entry]:
    return [
        packages_entry(
            cache,
            name=name,
            requirements=REQUIREMENTS / file,
            python=versions.python_base.python,
            machine=platform.machine(),
        )
        for name, file in versions.requirements.items()
    ]


def _parts(cache: Cache, made: Artifacts, *, versions: Versions, scratch: Path) -> Iterable[Part]:
    for name, path in made.programs.items():
        program = versions.programs[name]
        entry = imported_entry(cache, program, arch=architecture())
        folder = _folder(cache, program, path, scratch=scratch)
        yield Part(
            kind=entry.kind, name=name, key=entry.key, folder=folder, record=_record(made.origins[name])
        )
    assets = (asset_entry(cache, asset) for asset in versions.assets.values() if not asset.on_demand)
    base = base_entry(cache, versions.python_base, own=None)
    images = (image.entry for image in made.images.values())
    for entry in (*assets, base, *_packages(cache, versions), *images):
        yield Part(kind=entry.kind, name=entry.name, key=entry.key, folder=entry.path)


def _folder(cache: Cache, program: Program, path: Path, *, scratch: Path) -> Path:
    """The program's entry. A program from PATH gets a folder of its own, with the scripts it needs."""
    if path.is_relative_to(cache.root):
        return path.parent
    folder = scratch / program.name
    folder.mkdir()
    for name in (program.name, *(Path(script).name for script in program.beside)):
        shutil.copy2(path.parent / name, folder / name)
    seal(folder)
    return folder


def _record(origin: Origin) -> Mapping[str, str]:
    return {key: value for key, value in origin.record().items() if key in ("version", "checked")}
