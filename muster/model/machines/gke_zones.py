"""Which zones of Google Cloud sell which GPU machine, as far as a public list of them was read.

Google's own page (https://cloud.google.com/compute/docs/gpus/gpu-regions-zones) could not be read. SkyPilot's
catalog is written from the answers of Google's API: github.com/skypilot-org/skypilot-catalog,
catalogs/v8/gcp/vms.csv, revision 8427bbff, read on 2026-11-25. Only on `READ` was the table true; `muster
doctor` asks the project itself. TPUs and machines with attached GPUs (T4) are not in it.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

READ: Final = "2026-11-25"

_L4: Final = (
    "asia-east1 abc; asia-northeast1 abc; asia-northeast3 ab; asia-south1 abc; asia-southeast1 abc; "
    "europe-west1 bc; europe-west2 ab; europe-west3 ab; europe-west4 abc; europe-west6 bc; me-central2 ac; "
    "northamerica-northeast1 b; northamerica-northeast2 ab; us-central1 abc; us-east1 bcd; us-east4 ac; "
    "us-west1 abc; us-west4 ac"
)
_A100: Final = (
    "asia-northeast1 ac; asia-northeast3 ab; asia-southeast1 bc; europe-west4 ab; me-west1 ac; "
    "us-central1 abcf; us-east1 b; us-west1 b; us-west3 b; us-west4 b"
)
_A100_SIXTEEN: Final = "asia-southeast1 c; europe-west4 ab; us-central1 abcf"
_A100_80GB: Final = "asia-southeast1 c; europe-west4 a; us-central1 ac; us-east4 c; us-east5 ab"
_H100: Final = (
    "asia-east1 c; asia-northeast1 b; asia-south1 c; asia-south2 b; asia-southeast1 bc; "
    "australia-southeast1 c; europe-north1 c; europe-west1 bc; europe-west3 c; europe-west4 bc; "
    "europe-west9 c; us-central1 abc; "
    "us-east4 abc; us-east5 a; us-west1 ab; us-west4 a"
)
_H100_PART: Final = f"{_H100}; europe-west8 c"
_H100_MEGA: Final = (
    "asia-east1 c; asia-northeast1 b; asia-southeast1 bc; australia-southeast1 c; europe-north1 c; "
    "europe-west1 bc; europe-west3 c; europe-west4 bc; us-central1 abc; us-east4 abc; us-east5 a; "
    "us-west1 ab; us-west4 a"
)
_H200: Final = (
    "asia-south1 b; asia-south2 c; europe-west1 b; europe-west4 a; us-central1 b; us-east4 b; us-east5 a; "
    "us-south1 b; us-west1 c"
)
_B200: Final = (
    "asia-northeast1 b; asia-southeast1 b; europe-north1 b; europe-west4 b; us-central1 b; us-east1 b; "
    "us-east4 b; us-south1 b; us-west2 c; us-west3 bc"
)


def _zones(text: str) -> frozenset[str]:
    pairs = (part.split() for part in text.split(";"))
    return frozenset(f"{region}-{letter}" for region, letters in pairs for letter in letters)


# The beginning of a machine's name; the longest that fits counts.
_SERIES: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "g2-standard-": _zones(_L4),
        "a2-highgpu-": _zones(_A100),
        "a2-megagpu-": _zones(_A100_SIXTEEN),
        "a2-ultragpu-": _zones(_A100_80GB),
        "a3-highgpu-": _zones(_H100_PART),
        "a3-highgpu-8g": _zones(_H100),
        "a3-megagpu-": _zones(_H100_MEGA),
        "a3-ultragpu-": _zones(_H200),
        "a4-highgpu-": _zones(_B200),
    }
)


def zones_selling(machine: str) -> frozenset[str]:
    """The zones that sold the machine on `READ`; empty where the table does not know the machine."""
    series = max((each for each in _SERIES if machine.startswith(each)), key=len, default="")
    return _SERIES.get(series, frozenset())
