"""The oldest version of each component that Muster installs, and why.

Not responsible for where a version is found: artifacts/upstream.py checks the catalogue, the policy pack
checks registered resources, and the admission policies check Ray.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from muster.model import ray
from muster.model.versions import Version
from muster.model.violations import Violation


@dataclass(frozen=True, slots=True)
class MinimumVersion:
    """`version` is the oldest that is allowed; `reason` completes "X is below Y: ..."; `source` is a URL."""

    version: Version
    reason: str
    source: str


MINIMUM_VERSIONS: Final[Mapping[str, MinimumVersion]] = MappingProxyType(
    {
        "kubernetes": MinimumVersion(
            Version(1, 30),
            "older ones have no ValidatingAdmissionPolicy of v1, in which Muster's policies are written",
            "https://kubernetes.io/blog/2024/04/24/validating-admission-policy-ga/",
        ),
        "gpu-operator": MinimumVersion(
            Version(25, 3, 1),
            "up to 25.3.0 a container can take over its node (CVE-2025-23266)",
            "https://nvd.nist.gov/vuln/detail/CVE-2025-23266",
        ),
        "nvidia-container-toolkit": MinimumVersion(
            Version(1, 17, 8),
            "up to 1.17.7 a container can take over its node (CVE-2025-23266)",
            "https://nvd.nist.gov/vuln/detail/CVE-2025-23266",
        ),
        "ray": MinimumVersion(
            ray.FLOOR,
            "older dashboards delete jobs for any web page that a user opens (CVE-2026-27482)",
            "https://nvd.nist.gov/vuln/detail/CVE-2026-27482",
        ),
        "kueue": MinimumVersion(
            Version(0, 16),
            "older ones store v1beta1, which drops fields that Muster writes",
            "https://github.com/kubernetes-sigs/kueue/blob/v0.16.0/CHANGELOG/CHANGELOG-0.16.md",
        ),
        "kuberay": MinimumVersion(
            Version(1, 5),
            "older ones know neither KAI nor Ray's token authentication",
            "https://github.com/ray-project/kuberay/releases/tag/v1.5.0",
        ),
        "kai": MinimumVersion(
            Version(0, 17),
            "Muster renders what the charts of 0.17 read",
            "https://github.com/kai-scheduler/KAI-Scheduler/releases/tag/v0.17.0",
        ),
    }
)


def minimum_version_rules(versions: Mapping[str, str]) -> list[Violation]:
    """Compare component versions with MINIMUM_VERSIONS. A component without an entry passes."""
    found = []
    for name, text in versions.items():
        minimum = MINIMUM_VERSIONS.get(name)
        if minimum is not None and Version.of(text) < minimum.version:
            message = f"{text} is below {minimum.version}: {minimum.reason}."
            found.append(Violation(name, message, f"use {minimum.version} or newer."))
    return found
