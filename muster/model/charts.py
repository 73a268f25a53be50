"""Charts, images and the sources that a stack takes them from.

Responsible for the sources that a config may name, and for the reference of a chart or image in each. Where
from is `charts` and `images` of a stack; which is `versions`, for a chart and its images together.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

OCI: Final = "oci://"
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")


class ChartOrigin(StrEnum):
    """project: each project's own repository. mirror: one OCI registry that has them all. folder: a path in
    the project, for clusters without access to a registry.
    """

    PROJECT = "project"
    MIRROR = "mirror"
    FOLDER = "folder"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartSource:
    """`location` is the mirror (`oci://...`) or the folder. `digests`: chart -> sha256 of its archive, over
    those of the table.
    """

    origin: ChartOrigin = ChartOrigin.PROJECT
    location: str = ""
    digests: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSource:
    """`gang_admission` is our own image, with digest. `mirror` is a prefix that takes the place of the
    registry in every image's name; `pinned` are references that a stack gives itself: name -> reference.
    """

    gang_admission: str | None = None
    mirror: str | None = None
    pinned: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def reference(self, name: str, upstream: str) -> str:
        """The reference of a third-party image whose project calls it `upstream`."""
        if name in self.pinned:
            return self.pinned[name]
        return mirrored(upstream, self.mirror) if self.mirror else upstream


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart as Helm takes it: `reference` is a name in `repository`, an `oci://` address, or a path.
    `version` is None where the path is the version. `digest` is the sha256 of its archive, where one is
    known.
    """

    name: str
    reference: str
    version: str | None = None
    repository: str | None = None
    digest: str = ""

    @property
    def home(self) -> str | None:
        """The registry's folder or the repository that it is fetched from; None for one that lies here."""
        if self.reference.startswith(OCI):
            return self.reference.rpartition("/")[0]
        return self.repository

    @property
    def chart(self) -> str:
        """What its home calls it."""
        return self.reference.rpartition("/")[2]


def mirrored(reference: str, mirror: str) -> str:
    """The same image under the mirror: `quay.io/a/b:c` at `m.example/x` is `m.example/x/a/b:c`."""
    registry, _, path = reference.partition("/")
    named = "." in registry or ":" in registry or registry == "localhost"
    return f"{mirror.rstrip('/')}/{path if named else reference}"


def is_digest(text: str) -> bool:
    return _DIGEST.fullmatch(text) is not None


def has_digest(reference: str) -> bool:
    """Whether an image's reference names exactly one image: `name@sha256:...`."""
    return is_digest(reference.partition("@")[2])
