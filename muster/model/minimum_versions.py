"""The oldest versions that Muster lets into a cluster.

Decides the floor of each component and why it is there. Leaves to rules/, policies/ and the admission
policies where a version is found and what its refusal says.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from muster.model import ray
from muster.model.versions import Version
from muster.model.violations import Violation


@dataclass(frozen=True, slots=True)
class Floor:
    """`version` is the oldest that is allowed, `reason` completes "X is below Y: ...", `source` is where it
    is said.
    """

    version: Version
    reason: str
    source: str


FLOORS: Final[Mapping[str, Floor]] = MappingProxyType(
    {
        "gpu-operator": Floor(
            Version(25, 3, 1),
            "up to 25.3.0 a container can take over its node (CVE-2025-23266)",
            "https://nvd.nist.gov/vuln/detail/CVE-2025-23266",
        ),
        "nvidia-container-toolkit": Floor(
            Version(1, 17, 8),
            "up to 1.17.7 a container can take over its node (CVE-2025-23266)",
            "https://nvd.nist.gov/vuln/detail/CVE-2025-23266",
        ),
        "ray": Floor(
            ray.FLOOR,
            "older dashboards delete jobs for any web page that a user opens (CVE-2026-27482)",
            "https://nvd.nist.gov/vuln/detail/CVE-2026-27482",
        ),
        "kueue": Floor(
            Version(0, 16),
            "older ones store v1beta1, which drops fields that Muster writes",
            "https://github.com/kubernetes-sigs/kueue/blob/v0.16.0/CHANGELOG/CHANGELOG-0.16.md",
        ),
        "kuberay": Floor(
            Version(1, 5),
            "older ones know neither KAI nor Ray's token authentication",
            "https://github.com/ray-project/kuberay/releases/tag/v1.5.0",
        ),
        "kai": Floor(
            Version(0, 17),
            "Muster renders what the charts of 0.17 read",
            "https://github.com/kai-scheduler/KAI-Scheduler/releases/tag/v0.17.0",
        ),
    }
)


def floor_rules(versions: Mapping[str, str]) -> list[Violation]:
    """Component -> version, against the floors; what has no floor passes."""
    found = []
    for name, text in versions.items():
        floor = FLOORS.get(name)
        if floor is not None and Version.of(text) < floor.version:
            message = f"{text} is below {floor.version}: {floor.reason}."
            found.append(Violation(name, message, f"use {floor.version} or newer."))
    return found
