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


# EKS's last line: AWS's sovereign and isolated partitions.
_NAMES: Final = {
    Provider.GKE: """
        africa-south1 asia-east1 asia-east2 asia-northeast1 asia-northeast2 asia-northeast3 asia-south1
        asia-south2 asia-southeast1 asia-southeast2 australia-southeast1 australia-southeast2
        europe-central2 europe-north1 europe-north2 europe-southwest1 europe-west1 europe-west10
        europe-west12 europe-west2 europe-west3 europe-west4 europe-west6 europe-west8 europe-west9
        me-central1 me-central2 me-west1 northamerica-northeast1 northamerica-northeast2 northamerica-south1
        southamerica-east1 southamerica-west1 us-central1 us-east1 us-east4 us-east5 us-south1 us-west1
        us-west2 us-west3 us-west4
    """,
    Provider.EKS: """
        af-south-1 ap-east-1 ap-east-2 ap-northeast-1 ap-northeast-2 ap-northeast-3 ap-south-1 ap-south-2
        ap-southeast-1 ap-southeast-2 ap-southeast-3 ap-southeast-4 ap-southeast-5 ap-southeast-6
        ap-southeast-7 ca-central-1 ca-west-1 cn-north-1 cn-northwest-1 eu-central-1 eu-central-2 eu-north-1
        eu-south-1 eu-south-2 eu-west-1 eu-west-2 eu-west-3 il-central-1 me-central-1 me-south-1
        mx-central-1 sa-east-1 us-east-1 us-east-2 us-gov-east-1 us-gov-west-1 us-west-1 us-west-2
        eu-isoe-west-1 eusc-de-east-1 us-iso-east-1 us-iso-west-1 us-isob-east-1 us-isof-east-1
        us-isof-south-1
    """,
}
REGIONS: Final[Mapping[Provider, frozenset[str]]] = MappingProxyType(
    {provider: frozenset(names.split()) for provider, names in _NAMES.items()}
)
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
