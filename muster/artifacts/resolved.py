"""The charts, manifests and images of a stack: built on this machine, or published by their projects.

Responsible for reading artifacts.json, and for the error when it is missing or malformed. Charts with a
recorded digest are cached as files beside the program: fetched once, compared every time. Helm gets the file,
never the address, because Helm does not compare what it fetches with a digest.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from muster import paths
from muster.artifacts.catalogue import Catalogue, ChartEntry, catalogue
from muster.artifacts.oci.registry import RegistryError, UnreachableError, Web, archive, digest_of
from muster.errors import MusterError
from muster.model import names
from muster.model.gpu_operator import installation
from muster.model.programs import OCI, Chart, ChartOrigin, ChartSource, Program, Version, has_digest
from muster.model.stack import ArtifactSource, GangMode, Stack
from muster.model.versions import minimum_version_rules
from muster.paths import VERSIONS_FILE
from muster.render import gang
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


# Resolves the charts and images of a stack to references.
#
# Responsible for the place of each: its project's repository, a mirror, or a folder.


GANG_IMAGE: Final = "gang-admission"
RECORDER_IMAGE: Final = "recorder"
_PAUSE: Final = "pause"


def resolve_artifacts(stack: Stack, *, name: str) -> Artifacts:
    """The artifacts of the stack called `name`, built on this machine or published (`muster:artifacts`).

    Raises ArtifactError for a stack that needs the controller's image and names none, and for one of KAI on a
    local cluster without KAI, before any resource is registered.
    """
    if stack.artifacts is ArtifactSource.LOCAL:
        built = load()
        program = stack.scheduler.traits.local_program
        if program and program not in built.programs:
            raise ArtifactError(
                f"{built.source}: this local cluster runs no {stack.scheduler.proper_name}.",
                fix="start one that does: muster local down, then muster local up "
                f"--scheduler {stack.scheduler}.",
            )
        return built
    found = published(stack, name=name)
    if stack.gang_admission.mode is GangMode.MUSTER:
        found.image(GANG_IMAGE)
    return found


def chosen(stack: Stack) -> Catalogue:
    """The charts and images in the versions that the stack names; Muster's own where it names none."""
    return catalogue().at(stack.versions, kubernetes=_minor(kubernetes_of(stack)))


def versions_of(stack: Stack) -> dict[str, str]:
    """Component -> version of what the stack installs and of the cluster that it makes."""
    charts = chosen(stack).charts
    found = {name: charts[name].version.removeprefix("v") for name in installed(stack)}
    kubernetes = kubernetes_of(stack)
    return found | ({"kubernetes": kubernetes} if kubernetes else {})


def kubernetes_of(stack: Stack) -> str:
    """The version that the stack names for its cluster; empty where the stack does not choose it."""
    return stack.cluster.version or ""


def _minor(text: str) -> str:
    try:
        version = Version.of(text)
    except ValueError:
        return ""
    return f"{version.major}.{version.minor}"


def push_command(stack: Stack, *, name: str) -> str:
    """The command that builds the controller's image and publishes it. Muster knows no registry for a cluster
    that it did not make.
    """
    where = "" if stack.cluster.is_ours else " --repository HOST/PATH"
    return f"muster image push {name}{where}"


def published(stack: Stack, *, name: str) -> Artifacts:
    """The published artifacts of a stack, the controller's image included where the stack names it."""
    known = chosen(stack)
    _refuse_unsafe(known)
    images = {each: stack.images.reference(each, reference) for each, reference in known.images.items()}
    if stack.images.gang_admission is not None:
        # With the player in it where the stack's recorder forecasts (publish/build.py).
        images |= dict.fromkeys((GANG_IMAGE, RECORDER_IMAGE), stack.images.gang_admission)
    return Artifacts(
        source=f"stack {name}",
        charts={each: chart_of(entry, stack.charts) for each, entry in known.charts.items()},
        kustomize={},
        crds=dict(known.files),
        images=images,
        programs={},
        fix=f"`{push_command(stack, name=name)}` builds the controller's image, publishes it, and writes its "
        "digest into the stack file",
    )


def by_tag(stack: Stack) -> dict[str, str]:
    """Name -> reference of the other projects' images that a stack uses by tag. A tag can be moved."""
    images = chosen(stack).images
    named = {each: stack.images.reference(each, images[each]) for each in _used_images(stack)}
    return {each: reference for each, reference in named.items() if not has_digest(reference)}


def _used_images(stack: Stack) -> Iterator[str]:
    """The other projects' images that are set for a stack's pods; those in charts are the charts' own."""
    cluster, charts = stack.cluster, installed(stack)
    yield from (name for name in catalogue().entries if name in charts)
    if cluster.takes_autoscaler:
        yield names.AUTOSCALER
    if cluster.is_ours and any(pool.efa for pool in stack.pools):
        yield names.EFA_PLUGIN
    if gang.makes_pods(stack) or installation(stack) is not None:
        yield _PAUSE


def without_digest(stack: Stack) -> list[str]:
    """The charts that the stack installs without a recorded digest."""
    known = chosen(stack).charts
    return [name for name in installed(stack) if not wanted_digest(known[name], stack.charts)]


def _refuse_unsafe(known: Catalogue) -> None:
    """Raise ArtifactError when versions.toml names a version that is out of range."""
    versions = {name: entry.version for name, entry in known.charts.items()}
    toolkit = known.charts["gpu-operator"].toolkit
    found = minimum_version_rules(versions | ({"nvidia-container-toolkit": toolkit} if toolkit else {}))
    if found:
        listed = "\n".join(str(violation) for violation in found)
        raise ArtifactError(f"{VERSIONS_FILE.name} names versions that may not be installed:\n{listed}")


def chart_of(entry: ChartEntry, source: ChartSource) -> Chart:
    """The chart of an entry in a source. A file is compared with its digest, if one is recorded; a fetched
    archive is compared after the download (py).
    """
    if source.origin is ChartOrigin.FOLDER:
        return Chart(name=entry.name, reference=str(_in_folder(entry, source)))
    home = source.location if source.origin is ChartOrigin.MIRROR else entry.repository
    is_oci = home.startswith(OCI)
    return Chart(
        name=entry.name,
        reference=f"{home.rstrip('/')}/{entry.chart}" if is_oci else entry.chart,
        version=entry.version,
        repository=None if is_oci else home,
        digest=wanted_digest(entry, source),
    )


def wanted_digest(entry: ChartEntry, source: ChartSource) -> str:
    """The expected digest of the chart's archive; empty when none is recorded."""
    return source.digests.get(entry.name, entry.digest)


def installed(stack: Stack) -> tuple[str, ...]:
    """The published charts that the stack installs."""
    if stack.artifacts is ArtifactSource.LOCAL:
        return ()
    of_gpus = () if installation(stack) is None else (Program.GPU_OPERATOR,)
    programs = (stack.scheduler.program, Program.KUBERAY, *of_gpus)
    of_nodes = (names.KARPENTER,) if stack.cluster.is_ours and stack.cluster.has_karpenter else ()
    return (*(each.value for each in programs if stack.installs(each)), *of_nodes)


def archive_name(entry: ChartEntry) -> str:
    """As `helm pull` writes it."""
    return f"{entry.chart}-{entry.version}.tgz"


def _in_folder(entry: ChartEntry, source: ChartSource) -> Path:
    folder = Path(source.location)
    path = (folder if folder.is_absolute() else paths.project() / folder) / archive_name(entry)
    wanted = wanted_digest(entry, source)
    if wanted and path.is_file():
        found = f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
        if found != wanted:
            raise ArtifactError(
                f"{path} has digest {found}, expected {wanted}: fetch it again, or correct "
                f"`muster:charts.digests.{entry.name}` if you know why it differs."
            )
    return path
