"""Reads `muster:charts`, `muster:image` and `muster:images`.

Decides which words name a source. Leaves whether a source can be used to the model's rules.
"""

from collections.abc import Iterable
from types import MappingProxyType
from typing import Final

from muster.artifacts.catalogue import catalogue
from muster.config.section import Section
from muster.model.charts import ChartOrigin, ChartSource, ImageSource
from muster.model.violations import suggestion

_ONE: Final = "write one of `mirror:` and `path:`, or neither for each project's own repository."


def read_charts(section: Section) -> ChartSource:
    """Where charts come from: without a word, each project's own repository."""
    mirror, path = section.text("mirror"), section.text("path")
    digests = _known(section.section("digests"), catalogue().charts, noun="chart")
    section.close()
    if mirror and path:
        section.note("path", "stands beside `mirror`.", _ONE)
    if mirror:
        return ChartSource(origin=ChartOrigin.MIRROR, location=mirror, digests=digests)
    if path:
        return ChartSource(origin=ChartOrigin.FOLDER, location=path, digests=digests)
    return ChartSource(digests=digests)


def read_images(root: Section) -> ImageSource:
    """Our image and everybody else's. An empty `muster:image` is the project file's way to say none."""
    ours = None if root.get("image") == "" else root.text("image")
    section = root.section("images")
    mirror = section.text("mirror")
    pinned = _known(section, catalogue().images, noun="image", besides=("mirror",))
    return ImageSource(gang_admission=ours, mirror=mirror, pinned=pinned)


def _known(
    section: Section, names: Iterable[str], *, noun: str, besides: tuple[str, ...] = ()
) -> MappingProxyType[str, str]:
    """Texts by the names of the catalogue."""
    known = tuple(names)
    found: dict[str, str] = {}
    said = [key for key, _ in section.items() if key not in besides]
    for key in said:
        if key not in known:
            section.note(key, f"is no {noun} that Muster installs.", suggestion(key, known, noun=noun))
        elif (value := section.text(key)) is not None:
            found[key] = value
    return MappingProxyType(found)
