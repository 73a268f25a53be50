"""The charts, manifests and images of a stack: built on this machine, or published by their projects.

Responsible for reading artifacts.json, and for the error when it is missing or malformed. Charts with a
recorded digest are cached as files beside the program: fetched once, compared every time. Helm gets the file,
never the address, because Helm does not compare what it fetches with a digest.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from muster.artifacts.oci.registry import RegistryError, UnreachableError, Web, archive, digest_of
from muster.errors import MusterError
from muster.model.charts import OCI, Chart
from muster.whole_file import write_whole

VARIABLE: Final = "MUSTER_ARTIFACTS"
_MAKE: Final = "`make up` builds them; then export the path that it prints"
_DIGEST: Final = "@sha256:"


class ArtifactError(MusterError):
    """Artifacts are missing or malformed. The message names which, where, and how to get them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifacts:
    """Charts, directories of kustomize trees, files of CRDs, image references, paths of programs, by name.
    `source` is what they were read from, `fix` how to get one that is missing."""

    source: str
    charts: Mapping[str, Chart]
    kustomize: Mapping[str, Path]
    crds: Mapping[str, Path]
    images: Mapping[str, str]
    programs: Mapping[str, Path]
    fix: str = _MAKE

    def chart(self, name: str) -> Chart:
        """The chart. Raises ArtifactError when its local file does not exist."""
        if name not in self.charts:
            raise self._missing("charts", name)
        found = self.charts[name]
        lies_here = found.repository is None and not found.reference.startswith(OCI)
        if lies_here and not Path(found.reference).exists():
            raise self._gone("charts", name, found.reference)
        return found

    def has_kustomization(self, name: str) -> bool:
        """Whether there is a kustomize tree. Local builds have one; published artifacts have a chart."""
        return name in self.kustomize

    def kustomization(self, name: str) -> Path:
        return self._path("kustomize", self.kustomize, name)

    def crd(self, name: str) -> Path:
        return self._path("crds", self.crds, name)

    def program(self, name: str) -> Path:
        return self._path("programs", self.programs, name)

    def image(self, name: str) -> str:
        """The image's reference, `name@sha256:...`. A published image that is not pinned has a tag
        instead.
        """
        if name not in self.images:
            raise self._missing("images", name)
        return self.images[name]

    def _path(self, section: str, entries: Mapping[str, Path], name: str) -> Path:
        if name not in entries:
            raise self._missing(section, name)
        if not entries[name].exists():
            raise self._gone(section, name, entries[name])
        return entries[name]

    def _gone(self, section: str, name: str, path: object) -> ArtifactError:
        message = f"{self.source}: {section}.{name}: {path} does not exist."
        return ArtifactError(message, fix=f"{self.fix}.")

    def _missing(self, section: str, name: str) -> ArtifactError:
        return ArtifactError(f"{self.source}: {section}.{name} is missing.", fix=f"{self.fix}.")


def load(path: str | Path | None = None) -> Artifacts:
    """The artifacts of `path`, by default of the file that MUSTER_ARTIFACTS names."""
    named = path if path is not None else os.environ.get(VARIABLE)
    if not named:
        raise ArtifactError(
            f"`muster:artifacts: local` takes what was built on this machine, but {VARIABLE} is not set; "
            f"{_MAKE}, or write `muster:artifacts: upstream`."
        )
    source = Path(named)
    try:
        document = json.loads(source.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ArtifactError(f"{source} does not exist; {_MAKE} as {VARIABLE}.") from None
    except (OSError, ValueError) as error:
        raise ArtifactError(f"{source} cannot be read: {error}; {_MAKE}.") from None
    return _artifacts(document, str(source))


def _artifacts(document: object, source: str) -> Artifacts:
    if not isinstance(document, dict):
        raise ArtifactError(f"{source} must hold a JSON object; {_MAKE}.")
    sections = {
        name: _section(document, name, source)
        for name in ("charts", "kustomize", "crds", "images", "programs")
    }
    for name, reference in sections["images"].items():
        if _DIGEST not in reference:
            raise ArtifactError(
                f"{source}: images.{name}: {reference!r} has no digest (name@sha256:...); {_MAKE}."
            )
    return Artifacts(
        source=source,
        charts={name: Chart(name=name, reference=path) for name, path in sections["charts"].items()},
        kustomize=_paths(sections["kustomize"]),
        crds=_paths(sections["crds"]),
        images=sections["images"],
        programs=_paths(sections["programs"]),
    )


def _section(document: Mapping[str, object], name: str, source: str) -> dict[str, str]:
    section = document.get(name, {})
    if not isinstance(section, dict) or not all(isinstance(value, str) for value in section.values()):
        raise ArtifactError(f"{source}: {name} must be an object of texts; {_MAKE}.")
    return {str(key): str(value) for key, value in section.items()}


def _paths(section: Mapping[str, str]) -> dict[str, Path]:
    return {name: Path(path) for name, path in section.items()}


# Relative to the program's directory: the release stores the path in its state, which other machines read.
FOLDER: Final = Path(".charts")


def cached_chart(chart: Chart, *, web: Web | None = None) -> Chart:
    """The chart with its cached archive as reference. Raises ArtifactError when the digest does not match."""
    if not chart.digest or chart.home is None or chart.version is None:
        return chart
    path = FOLDER / f"{chart.chart}-{chart.version}.tgz"
    if not path.is_file() or digest_of(path.read_bytes()) != chart.digest:
        _keep(_fetched(chart, web or Web()), path)
    return replace(chart, reference=f"{path}", version=None, repository=None)


def _fetched(chart: Chart, web: Web) -> bytes:
    try:
        content = archive(chart.chart, chart.version or "", home=chart.home or "", web=web)
    except (RegistryError, UnreachableError) as error:
        raise ArtifactError(
            f"chart {chart.name} {chart.version} cannot be fetched from {chart.home}: {error.message}",
            fix="name a mirror (`muster:charts.mirror`) or a folder (`muster:charts.path`) that has it.",
        ) from None
    if (found := digest_of(content)) != chart.digest:
        raise ArtifactError(
            f"chart {chart.name} {chart.version} from {chart.home} has digest {found}, expected "
            f"{chart.digest}. If the project republished it and you trust that, take "
            f"`muster:charts.digests.{chart.name}` out of the stack and run `make pin`."
        )
    return content


def _keep(content: bytes, path: Path) -> None:
    """Whole, because two programs may run in one checkout."""
    path.parent.mkdir(exist_ok=True)
    write_whole(path, content)
