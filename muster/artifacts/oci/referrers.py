"""Documents of an image that are stored in its repository and name it as their subject.

https://github.com/opencontainers/distribution-spec/blob/v1.1.1/spec.md, "Listing Referrers" and, for
registries that do not know them, "Referrers Tag Schema".
"""

import json
from typing import Any, Final

from muster.artifacts.oci.image import descriptor, encoded
from muster.artifacts.oci.registry import INDEX, MANIFEST, Registry, digest_of

EMPTY: Final = "application/vnd.oci.empty.v1+json"
_NOTHING: Final = b"{}"


def attach(registry: Registry, *, subject: bytes, content: bytes, media_type: str) -> str:
    """Push `content` as a document about the image of the manifest `subject`. Its manifest's digest; a
    second time nothing changes.
    """
    for blob in (_NOTHING, content):
        registry.push_blob(blob)
    manifest = encoded(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "artifactType": media_type,
            "config": descriptor(EMPTY, _NOTHING),
            "layers": [descriptor(media_type, content)],
            "subject": descriptor(MANIFEST, subject),
        }
    )
    digest = registry.push_manifest(manifest, MANIFEST)
    if not registry.knows_referrers(digest_of(subject)):
        _tell_by_tag(registry, subject, {**descriptor(MANIFEST, manifest), "artifactType": media_type})
    return digest


def attached(registry: Registry, subject: str, *, media_type: str) -> list[bytes]:
    """The documents of this type about the image with the digest `subject`."""
    listed = registry.referrers(subject) or _by_tag(registry, subject)
    named = [each["digest"] for each in listed if each.get("artifactType") == media_type]
    manifests = [json.loads(registry.manifest(digest)) for digest in named]
    return [registry.blob(manifest["layers"][0]["digest"]) for manifest in manifests]


def _tell_by_tag(registry: Registry, subject: bytes, entry: dict[str, Any]) -> None:
    before = _by_tag(registry, digest_of(subject))
    others = [each for each in before if each["digest"] != entry["digest"]]
    index = encoded({"schemaVersion": 2, "mediaType": INDEX, "manifests": [*others, entry]})
    registry.push_manifest(index, INDEX, tag=_tag(digest_of(subject)))


def _by_tag(registry: Registry, subject: str) -> list[dict[str, Any]]:
    if not registry.has_manifest(_tag(subject)):
        return []
    listed: list[dict[str, Any]] = json.loads(registry.manifest(_tag(subject)))["manifests"]
    return listed


def _tag(digest: str) -> str:
    return digest.replace(":", "-")
