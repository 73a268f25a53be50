"""Reads `muster:versions`, `muster:charts`, `muster:image` and `muster:images`.

Responsible for how a version and a source are written.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from muster.artifacts.catalogue import catalogue
from muster.model.charts import ChartOrigin, ChartSource, ImageSource
from muster.model.clusters import Cluster, ExistingCluster
from muster.model.programs import Program
from muster.model.section import Section
from muster.model.stack import VersionLevel
from muster.model.violations import Violation, at, suggestion

_ONE: Final = "write one of `mirror:` and `path:`, or neither for each project's own repository."

# Key of `muster:versions` -> program. `kubernetes` beside them is the cluster's own version.
VERSION_KEYS: Final[Mapping[str, Program]] = MappingProxyType(
    {
        "kueue": Program.KUEUE,
        "kai": Program.KAI,
        "kuberay": Program.KUBERAY,
        "gpuOperator": Program.GPU_OPERATOR,
    }
)
KUBERNETES: Final = "kubernetes"


def parse_versions(section: Section) -> tuple[Mapping[str, str], str | None, VersionLevel | None]:
    """Program -> version, the version of Kubernetes, and how well they have to be known."""
    level = section.choice("require", VersionLevel) if section.has("require") else None
    named = {program.value: section.text(key) for key, program in VERSION_KEYS.items()}
    kubernetes = section.text(KUBERNETES)
    section.close()
    versions = MappingProxyType({name: text for name, text in named.items() if text is not None})
    return versions, kubernetes, level


def with_kubernetes(cluster: Cluster | None, version: str | None, *, root: Section) -> Cluster | None:
    """The cluster with the version of `muster:versions.kubernetes`, which is `muster:cluster.version` in
    another place: one of them is written.
    """
    if cluster is None or version is None:
        return cluster
    section = root.section("versions")
    if isinstance(cluster, ExistingCluster):
        section.note(KUBERNETES, "is the version of a cluster that Muster does not make.", "remove it.")
        return cluster
    if root.section("cluster").has("version"):
        section.note(KUBERNETES, "is written beside `muster:cluster.version`.", "remove one of them.")
        return cluster
    return replace(cluster, version=version)


def as_written(violations: Iterable[Violation], root: Section) -> Iterator[Violation]:
    """The violations, those of the cluster's version at the key that has it."""
    for each in violations:
        is_version = each.path == "muster:cluster.version" and not root.section("cluster").has("version")
        if is_version and (section := root.section("versions")).has(KUBERNETES):
            yield replace(each, path=at(section.path, KUBERNETES))
        else:
            yield each


def parse_charts(section: Section) -> ChartSource:
    """Where charts come from. An empty section means each project's own repository."""
    mirror, path = section.text("mirror"), section.text("path")
    digests = _known(section.section("digests"), catalogue().charts, noun="chart")
    section.close()
    if mirror and path:
        section.note("path", "is written together with `mirror`.", _ONE)
    if mirror:
        return ChartSource(origin=ChartOrigin.MIRROR, location=mirror, digests=digests)
    if path:
        return ChartSource(origin=ChartOrigin.FOLDER, location=path, digests=digests)
    return ChartSource(digests=digests)


def parse_images(root: Section) -> ImageSource:
    """The controller's image and those of other projects. The project file sets `muster:image` to "" for
    none.
    """
    ours = None if root.get("image") == "" else root.text("image")
    section = root.section("images")
    mirror = section.text("mirror")
    pinned = _known(section, catalogue().images, noun="image", besides=("mirror",))
    return ImageSource(gang_admission=ours, mirror=mirror, pinned=pinned)


def _known(
    section: Section, names: Iterable[str], *, noun: str, besides: tuple[str, ...] = ()
) -> MappingProxyType[str, str]:
    """The section's texts, for names that the catalogue has."""
    known = tuple(names)
    found: dict[str, str] = {}
    said = [key for key, _ in section.items() if key not in besides]
    for key in said:
        if key not in known:
            section.note(key, f"is not a {noun} that Muster installs.", suggestion(key, known, noun=noun))
        elif (value := section.text(key)) is not None:
            found[key] = value
    return MappingProxyType(found)
