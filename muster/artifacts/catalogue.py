"""Reads the charts, images and files of muster/artifacts/data/versions.toml.

Responsible for the required fields of an entry.
"""

import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from muster.errors import MusterError
from muster.paths import VERSIONS_FILE


class CatalogueError(MusterError):
    """A table of versions that cannot be used: what is wrong, and where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartEntry:
    """One published chart. `digest` is empty where no source of it was read; `unread` is the reason.

    `values` names the published values file that tests compare with; `toolkit` is the container toolkit that
    the GPU Operator's chart deploys.
    """

    name: str
    chart: str
    version: str
    repository: str
    licence: str
    digest: str = ""
    unread: str = ""
    values: str = ""
    toolkit: str = ""

    def at(self, version: str) -> "ChartEntry":
        """The same chart in another version, of which neither digest nor toolkit is known."""
        text = f"v{version.removeprefix('v')}" if self.version.startswith("v") else version.removeprefix("v")
        if text == self.version:
            return self
        unread = f"the table is about {self.version}"
        return replace(self, version=text, digest="", unread=unread, values="", toolkit="")


@dataclass(frozen=True, slots=True)
class ImageEntry:
    """`template` has `{version}` for that of `chart`, or `{kubernetes}` for the cluster's minor version."""

    template: str
    chart: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """`files`: name -> a file kept here. `kubernetes`: the minor version that images are named for."""

    charts: Mapping[str, ChartEntry]
    entries: Mapping[str, ImageEntry]
    files: Mapping[str, Path]
    kubernetes: str

    @property
    def images(self) -> dict[str, str]:
        """Name -> the reference that its project publishes."""
        return {name: self._reference(entry) for name, entry in self.entries.items()}

    def at(self, versions: Mapping[str, str], *, kubernetes: str = "") -> "Catalogue":
        """The catalogue with these versions of charts, and with the images that belong to them."""
        charts = {
            name: entry.at(versions[name]) if name in versions else entry
            for name, entry in self.charts.items()
        }
        return replace(self, charts=charts, kubernetes=kubernetes or self.kubernetes)

    def _reference(self, entry: ImageEntry) -> str:
        version = self.charts[entry.chart].version.removeprefix("v") if entry.chart else ""
        return entry.template.format(version=version, kubernetes=self.kubernetes)


@cache
def catalogue(path: Path = VERSIONS_FILE) -> Catalogue:
    """The table, read once."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
        return Catalogue(
            charts={name: _chart(name, entry) for name, entry in raw["charts"].items()},
            entries={
                name: ImageEntry(entry["reference"], entry.get("chart", ""))
                for name, entry in raw["images"].items()
            },
            files={name: _file(path.parent, entry) for name, entry in raw["files"].items()},
            kubernetes=".".join(
                raw["programs"]["kube-apiserver"]["version"].removeprefix("v").split(".")[:2]
            ),
        )
    except (OSError, tomllib.TOMLDecodeError) as problem:
        raise CatalogueError(f"{path} cannot be read: {problem}; restore it from version control.") from None
    except KeyError as hole:
        raise CatalogueError(f"{path}: key {hole} is missing; compare it with the other entries.") from None


def _chart(name: str, entry: Mapping[str, Any]) -> ChartEntry:
    if not entry.get("digest") and not entry.get("unread"):
        raise CatalogueError(f"charts.{name}: has neither a digest nor `unread` with a reason for that.")
    return ChartEntry(
        name=name,
        chart=entry["chart"],
        version=entry["version"],
        repository=entry["repository"],
        licence=entry["licence"],
        digest=entry.get("digest", ""),
        unread=entry.get("unread", ""),
        values=entry.get("values", ""),
        toolkit=entry.get("toolkit", ""),
    )


def _file(folder: Path, entry: Mapping[str, Any]) -> Path:
    """A kept file, which has to be the one that was published."""
    found: Path = folder / entry["path"]
    digest = f"sha256:{hashlib.sha256(found.read_bytes()).hexdigest()}"
    if digest != entry["digest"]:
        raise CatalogueError(f"{found} is {digest}, not {entry['digest']}: restore it from version control.")
    return found
