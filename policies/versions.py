"""Versions: nothing older than the minimum that a known vulnerability or a missing feature sets, and no new
cluster of a Kubernetes version that its cloud no longer supports.

The minimum versions are `muster.model.versions`. The pack's config can raise one; a lower value there
has no effect. How long versions are supported is `muster.model.versions`.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any, Final

import yaml
from pulumi_policy import EnforcementLevel, Severity

from muster.config.stack import today
from muster.model.programs import Version
from muster.model.regions import Provider
from muster.model.versions import MINIMUM_VERSIONS, Outlook, Phase, outlook
from muster.model.work import RAY
from muster.policies.registered import RELEASES, Resource, Unknown
from muster.policies.rule import Case, Finding, Rule, Threshold

# Type -> provider and the input with the version.
_CLUSTERS: Final = {
    "aws:eks/cluster:Cluster": (Provider.EKS, "version"),
    "gcp:container/cluster:Cluster": (Provider.GKE, "minMasterVersion"),
}
_EXTENDED: Final = "EXTENDED"
_TODAY: Final = Threshold("", {"type": "string", "description": "The day to judge by, such as 2026-11-23."})
_TAG: Final = re.compile(r":v?(\d+(?:\.\d+)+[^@/]*)(?:@|$)")


def minimum_versions(case: Case) -> Iterator[Finding]:
    """Registered charts, images and Ray versions that are older than the minimum of their component."""
    raised: dict[str, Version] = {}
    for component, text in case.settings["floors"].items():
        floor = _version(text)
        if floor is None:
            yield Finding(f"the pack's config: floors.{component} is {text!r}, which is no version.")
        else:
            raised[component] = floor
    for component, said, urn in _found(case):
        minimum, version = MINIMUM_VERSIONS.get(component), _version(said)
        if minimum is None or version is None:
            continue
        least = max(minimum.version, raised.get(component, minimum.version))
        if version < least:
            reason = minimum.reason if least == minimum.version else "the pack's config requires it"
            yield Finding(f"{component} {version} is below {least}: {reason}.", urn)


def supported_new(case: Case) -> Iterator[Finding]:
    """New clusters of a version whose support has ended. An existing one stays deployable."""
    if _day(case) is None:
        yield Finding(f"the pack's config: today is {case.settings['today']!r}, not a day like 2026-11-23.")
    for cluster, found in _outlooks(case):
        if found.refuses_new and not _exists(cluster):
            yield Finding(f"cluster {cluster.name}: {found.message}.", cluster.urn)


def support_ends(case: Case) -> Iterator[Finding]:
    """Clusters of a version whose support ends soon or, for an existing one, has ended."""
    for cluster, found in _outlooks(case):
        if found.phase is Phase.SUPPORTED or (found.refuses_new and not _exists(cluster)):
            continue
        yield Finding(f"cluster {cluster.name}: {found.message}.", cluster.urn)


def _outlooks(case: Case) -> Iterator[tuple[Resource, Outlook]]:
    day = _day(case) or today()
    for cluster in case.registered.of(*_CLUSTERS):
        provider, key = _CLUSTERS[cluster.type]
        version = cluster.at(key)
        extended = _EXTENDED in (
            cluster.at("releaseChannel", "channel"),
            cluster.at("upgradePolicy", "supportType"),
        )
        if isinstance(version, str):
            found = outlook(provider, version, today=day, extended=extended)
            if found is not None:
                yield cluster, found


def _day(case: Case) -> date | None:
    """The day to judge by; None where the setting is no day."""
    with suppress(ValueError):
        return date.fromisoformat(case.settings["today"]) if case.settings["today"] else today()
    return None


def _exists(cluster: Resource) -> bool:
    """A cluster has an address once it is made; before, a preview does not know it."""
    return isinstance(cluster.at("endpoint"), str)


def _version(said: str) -> Version | None:
    """None for a text that is no version (`latest`), which other policies check."""
    with suppress(ValueError):
        return Version.of(said)
    return None


def _found(case: Case) -> Iterator[tuple[str, str, str]]:
    """Component, version and resource of everything with a version."""
    for resource in case.registered.of(*RELEASES):
        yield from ((component, version, resource.urn) for component, version in _release(resource))
    for item in case.registered.items(*(each.kind for each in RAY)):
        for version in _ray_versions(item.spec):
            yield "ray", version, item.urn
    for item in case.registered.items():
        for image in images_of(item.body):
            name = image.split("@")[0].rsplit("/", 1)[-1].split(":")[0]
            if tag := _TAG.search(image):
                yield _COMPONENTS.get(name, name), tag[1], item.urn


# What images and charts are called where that is not the component's name.
_COMPONENTS: Final = {
    "kuberay-operator": "kuberay",
    "kuberay": "kuberay",
    "container-toolkit": "nvidia-container-toolkit",
    "kai-scheduler": "kai",
}


def _release(resource: Resource) -> Iterator[tuple[str, str]]:
    chart, version = resource.at("chart"), resource.at("version")
    if not isinstance(chart, str):
        return
    folder = Path(chart)
    if (folder / "Chart.yaml").is_file():
        said = yaml.safe_load((folder / "Chart.yaml").read_text(encoding="utf-8"))
        chart, version = str(said.get("name")), version or str(said.get("version"))
    name = chart.rsplit("/", 1)[-1]
    if isinstance(version, str):
        yield _COMPONENTS.get(name, name), version
    toolkit = resource.at("values", "toolkit", "version")
    if isinstance(toolkit, str) and not isinstance(toolkit, Unknown):
        yield "nvidia-container-toolkit", toolkit


def _ray_versions(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        said = value.get("rayVersion")
        if isinstance(said, str):
            yield said
        for each in value.values():
            yield from _ray_versions(each)


RULES: Final = (
    Rule(
        name="version-floors",
        description="No component runs in a version with a known vulnerability.",
        why=(
            "The vulnerabilities of older versions are public. The rule judges registered charts, images "
            "and Ray "
            "versions."
        ),
        judge=minimum_versions,
        severity=Severity.CRITICAL,
        remediation="raise the version; `versions.toml` of Muster has those that Muster was tested with.",
        url="https://nvd.nist.gov/vuln/detail/CVE-2025-23266",
        thresholds={
            "floors": Threshold({}, {"type": "object", "additionalProperties": {"type": "string"}}),
        },
    ),
    Rule(
        name="kubernetes-support",
        description="No new cluster has a Kubernetes version that its cloud no longer supports.",
        why=(
            "The cloud upgrades such a control plane at a time of its choice. An existing cluster can "
            "still be deployed."
        ),
        judge=supported_new,
        severity=Severity.HIGH,
        remediation="name a version with time left: docs/reference/versions.md lists them.",
        url="https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html",
        thresholds={"today": _TODAY},
    ),
    Rule(
        name="kubernetes-support-ends",
        description="The cloud supports a cluster's Kubernetes version for at least 60 more days.",
        why="After that the cloud upgrades the control plane at a time of its choice.",
        judge=support_ends,
        severity=Severity.MEDIUM,
        remediation="upgrade it on a day of your choice, one minor version at a time.",
        url="https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html",
        level=EnforcementLevel.ADVISORY,
        thresholds={"today": _TODAY},
    ),
)


# Images: by digest, or what runs tomorrow is not what was reviewed today.

_CONTAINERS: Final = ("containers", "initContainers")
_DIGEST: Final = "@sha256:"


def by_digest(case: Case) -> Iterator[Finding]:
    """Every container image of every registered object, and every image that a chart's values name."""
    for item in case.registered.items():
        for image in images_of(item.body):
            if _DIGEST not in image and not _is_excused(case, image):
                yield Finding(f"{item.label} runs {image or 'no image'}, which is no digest.", item.urn)
    for resource in case.registered.of(*RELEASES):
        for image in _in_values(resource.at("values")):
            if _DIGEST not in image and not _is_excused(case, image):
                yield Finding(f"chart {resource.name} runs {image}, which is no digest.", resource.urn)


def images_of(value: Any) -> Iterator[str]:
    """The images of all containers in an object, in pod templates at any depth."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key in _CONTAINERS and isinstance(inner, list):
                yield from (str(each.get("image", "")) for each in inner if isinstance(each, Mapping))
            else:
                yield from images_of(inner)
    elif isinstance(value, list):
        for each in value:
            yield from images_of(each)


def _in_values(value: Any) -> Iterator[str]:
    """`{repository: r, tag: t}` of a chart's values, put together as charts do."""
    if not isinstance(value, Mapping):
        return
    repository, tag = value.get("repository"), value.get("tag") or value.get("version")
    if isinstance(repository, str) and isinstance(tag, str):
        digest = value.get("digest")
        joined = tag if tag.startswith("@") else f":{tag}"
        yield f"{repository}{joined}" + (f"@{digest}" if isinstance(digest, str) else "")
    for each in value.values():
        yield from _in_values(each)


def _is_excused(case: Case, image: str) -> bool:
    return any(image.startswith(prefix) for prefix in case.settings["allowedPrefixes"])


IMAGE_RULES: Final = (
    Rule(
        name="images-by-digest",
        description="Every image is named by its digest.",
        why="A tag can be moved to another image after the review.",
        judge=by_digest,
        severity=Severity.HIGH,
        remediation="write image@sha256:...; `muster image push STACK` does it for the controller.",
        url="https://kubernetes.io/docs/concepts/containers/images/#image-names",
        thresholds={
            "allowedPrefixes": Threshold([], {"type": "array", "items": {"type": "string"}}),
        },
    ),
)
