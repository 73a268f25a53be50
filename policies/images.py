"""Images: by digest, or what runs tomorrow is not what was reviewed today."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pulumi_policy import Severity

from muster.policies.registered import RELEASES
from muster.policies.rule import Case, Finding, Rule, Threshold

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


RULES: Final = (
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
