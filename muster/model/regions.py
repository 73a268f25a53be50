"""The regions of the clouds, and what a zone of each looks like.

Source: https://cloud.google.com/compute/docs/regions-zones, read 2026-11-23
Source: https://docs.aws.amazon.com/global-infrastructure/latest/regions/aws-regions.html, read 2026-11-23

A region that is newer than this table is allowed: it has the shape of a name, and words that other regions
have (validation/clusters.py).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import Final, TypeVar

# Who makes a cluster and its nodes.

PROTECT: Final = (
    "Whether the cluster, and pools that take from a reservation, are kept from being destroyed or replaced."
)
"""What the key of every provider says that guards a cluster."""


class Provider(StrEnum):
    """`existing`: Muster installs into a cluster that it does not make."""

    GKE = "gke"
    EKS = "eks"
    EXISTING = "existing"


class NodeCloud(StrEnum):
    """Where the nodes of a cluster run, which decides on their drivers. `existing`: not said. `other`: any
    other cloud, or a data centre.
    """

    GKE = "gke"
    EKS = "eks"
    EXISTING = "existing"
    AKS = "aks"
    OCI = "oci"
    OTHER = "other"


# Tables of files, each read at its first lookup and not when its module is imported.

Row = TypeVar("Row")


class LazyTable(Mapping[str, Row]):
    """The mapping that `load` makes."""

    def __init__(self, load: Callable[[], Mapping[str, Row]]) -> None:
        self._rows = cache(load)

    def __getitem__(self, key: str) -> Row:
        return self._rows()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows())

    def __len__(self) -> int:
        return len(self._rows())


def _numbered(names: Mapping[str, tuple[int, ...]], joint: str) -> frozenset[str]:
    return frozenset(f"{name}{joint}{number}" for name, numbers in names.items() for number in numbers)


_GKE: Final = _numbered(
    {
        "africa-south": (1,),
        "asia-east": (1, 2),
        "asia-northeast": (1, 2, 3),
        "asia-south": (1, 2),
        "asia-southeast": (1, 2),
        "australia-southeast": (1, 2),
        "europe-central": (2,),
        "europe-north": (1, 2),
        "europe-southwest": (1,),
        "europe-west": (1, 2, 3, 4, 6, 8, 9, 10, 12),
        "me-central": (1, 2),
        "me-west": (1,),
        "northamerica-northeast": (1, 2),
        "northamerica-south": (1,),
        "southamerica-east": (1,),
        "southamerica-west": (1,),
        "us-central": (1,),
        "us-east": (1, 4, 5),
        "us-south": (1,),
        "us-west": (1, 2, 3, 4),
    },
    "",
)
_EKS: Final = _numbered(
    {
        "af-south": (1,),
        "ap-east": (1, 2),
        "ap-northeast": (1, 2, 3),
        "ap-south": (1, 2),
        "ap-southeast": (1, 2, 3, 4, 5, 6, 7),
        "ca-central": (1,),
        "ca-west": (1,),
        "cn-north": (1,),
        "cn-northwest": (1,),
        "eu-central": (1, 2),
        "eu-north": (1,),
        "eu-south": (1, 2),
        "eu-west": (1, 2, 3),
        "il-central": (1,),
        "me-central": (1,),
        "me-south": (1,),
        "mx-central": (1,),
        "sa-east": (1,),
        "us-east": (1, 2),
        "us-gov-east": (1,),
        "us-gov-west": (1,),
        "us-west": (1, 2),
        # AWS's sovereign and isolated partitions.
        "eusc-de-east": (1,),
        "eu-isoe-west": (1,),
        "us-iso-east": (1,),
        "us-iso-west": (1,),
        "us-isob-east": (1,),
        "us-isof-east": (1,),
        "us-isof-south": (1,),
    },
    "-",
)
REGIONS: Final[Mapping[Provider, frozenset[str]]] = MappingProxyType({Provider.GKE: _GKE, Provider.EKS: _EKS})
_ZONES: Final = {
    # Google's AI zones have a word more: us-central1-ai1a.
    Provider.GKE: re.compile(r"([a-z]+(?:-[a-z]+)+\d+)-(?:ai\d+)?[a-z]\Z"),
    # So have local and Wavelength zones: us-west-2-lax-1a, us-east-1-wl1-bos-wlz-1.
    Provider.EKS: re.compile(r"([a-z]{2,4}(?:-[a-z]+)+-\d)(?:-wl\d-[a-z]+-wlz-\d+|(?:-[a-z]+-\d)?[a-z])\Z"),
}
_SHAPES: Final = {
    Provider.GKE: re.compile(r"[a-z]+-[a-z]+\d+\Z"),
    Provider.EKS: re.compile(r"[a-z]+(?:-[a-z]+)+-\d\Z"),
}


def may_be_newer(region: str, provider: Provider) -> bool:
    """Whether it is named as the provider names regions, in words that the known ones have."""
    known = {word for each in REGIONS[provider] for word in _words(each)}
    return _SHAPES[provider].match(region) is not None and set(_words(region)) <= known


def _words(region: str) -> list[str]:
    return re.findall(r"[a-z]+", region)


def region_of(zone: str, provider: Provider) -> str | None:
    """The region of a zone; None for what is no name of one."""
    found = _ZONES[provider].match(zone)
    return found[1] if found else None


def first_zone(region: str, provider: Provider) -> str:
    """A zone of the region, for an example."""
    return f"{region}-a" if provider is Provider.GKE else f"{region}a"
