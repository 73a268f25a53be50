"""The versions of each component that Muster installs: from which on, before which, and why.

From the minimum to the first unknown one versions are within what Muster's suites run or were compared with.
Newer ones are accepted where their notes were read (readings.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from types import MappingProxyType
from typing import Final

from muster.model import ray
from muster.model.programs import Version
from muster.model.readings import read_versions, reading_of
from muster.model.violations import Violation


@dataclass(frozen=True, slots=True)
class MinimumVersion:
    """`version` is the oldest that is allowed; `reason` completes "X is below Y: ..."; `source` is a URL,
    `read` the day on which it was read.
    """

    version: Version
    reason: str
    source: str
    read: date


MINIMUM_VERSIONS: Final[Mapping[str, MinimumVersion]] = MappingProxyType(
    {
        "kubernetes": MinimumVersion(
            Version(1, 30),
            "older ones have no ValidatingAdmissionPolicy of v1, in which Muster's policies are written",
            "https://kubernetes.io/blog/2024/04/24/validating-admission-policy-ga/",
            date(2026, 11, 23),
        ),
        "gpu-operator": MinimumVersion(
            Version(25, 3, 1),
            "up to 25.3.0 a container can take over its node (CVE-2025-23266)",
            "https://nvd.nist.gov/vuln/detail/CVE-2025-23266",
            date(2026, 11, 21),
        ),
        "nvidia-container-toolkit": MinimumVersion(
            Version(1, 17, 8),
            "up to 1.17.7 a container can take over its node (CVE-2025-23266)",
            "https://nvd.nist.gov/vuln/detail/CVE-2025-23266",
            date(2026, 11, 21),
        ),
        "ray": MinimumVersion(
            ray.FLOOR,
            "older dashboards delete jobs for any web page that a user opens (CVE-2026-27482)",
            "https://nvd.nist.gov/vuln/detail/CVE-2026-27482",
            date(2026, 11, 21),
        ),
        "kueue": MinimumVersion(
            Version(0, 19),
            "Muster writes v1beta2 as 0.19 has it, and older ones drop fields that they do not know",
            "https://github.com/kubernetes-sigs/kueue/blob/v0.19.0/CHANGELOG/CHANGELOG-0.19.md",
            date(2026, 11, 27),
        ),
        "kuberay": MinimumVersion(
            Version(1, 5),
            "older ones know neither KAI nor Ray's token authentication",
            "https://github.com/ray-project/kuberay/releases/tag/v1.5.0",
            date(2026, 11, 21),
        ),
        "kai": MinimumVersion(
            Version(0, 17),
            "Muster renders what the charts of 0.17 read",
            "https://github.com/kai-scheduler/KAI-Scheduler/releases/tag/v0.17.0",
            date(2026, 11, 27),
        ),
    }
)

FIRST_UNKNOWN: Final[Mapping[str, Version]] = MappingProxyType(
    {
        "kubernetes": Version(1, 38),
        "kueue": Version(0, 20),
        "kuberay": Version(1, 7),
        "kai": Version(0, 18),
        "gpu-operator": Version(26, 8),
    }
)
"""The first version that Muster's values and manifests were not compared with."""


@dataclass(frozen=True, slots=True)
class OutOfRange:
    """`message` completes "X is ...", `fix` has versions that can be used."""

    message: str
    fix: str
    source: str


def out_of_range(component: str, text: str) -> OutOfRange | None:
    """Why this version cannot be used; None where it can, or where the component is not known."""
    version, minimum = Version.of(text), MINIMUM_VERSIONS.get(component)
    if minimum is not None and version < minimum.version:
        message = f"{text} is below {minimum.version}: {minimum.reason}."
        return OutOfRange(message, f"use {minimum.version} or newer.", minimum.source)
    unknown = FIRST_UNKNOWN.get(component)
    if unknown is not None and version >= unknown and reading_of(component, version) is None:
        message = f"{text} is newer than what Muster was compared with, which ends before {unknown}."
        read = read_versions(component)
        also = f", one whose notes were read ({', '.join(read)})" if read else ""
        return OutOfRange(message, f"use a version below {unknown}{also}, or a newer Muster.", "")
    return None


def minimum_version_rules(versions: Mapping[str, str]) -> list[Violation]:
    """Every version that is out of range. A component without an entry passes."""
    found = []
    for name, text in versions.items():
        if problem := out_of_range(name, text):
            found.append(Violation(name, problem.message, problem.fix))
    return found
