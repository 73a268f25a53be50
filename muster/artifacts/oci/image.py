"""An OCI image, built from files or read from an oci-archive.

The bytes are reproducible: files are sorted, have one timestamp and belong to root, and the compression is
fixed, so that the same files give the same digest.
https://github.com/opencontainers/image-spec/blob/main/manifest.md
"""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from muster.artifacts.oci.registry import INDEX, MANIFEST, Registry, digest_of

CONFIG: Final = "application/vnd.oci.image.config.v1+json"
LAYER: Final = "application/vnd.oci.image.layer.v1.tar+gzip"
_COMPRESSION: Final = 6


@dataclass(frozen=True, slots=True)
class Layer:
    """`content` is compressed; `diff_id` is the digest of what it expands to."""

    content: bytes
    diff_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """One platform's image: its manifest, and every blob that this names, by digest."""

    architecture: str
    manifest: bytes
    blobs: Mapping[str, bytes]

    @property
    def digest(self) -> str:
        return digest_of(self.manifest)

    @property
    def config(self) -> Any:
        return json.loads(self.blobs[json.loads(self.manifest)["config"]["digest"]])


def layer_of_tar(tar: bytes) -> Layer:
    return Layer(gzip.compress(tar, _COMPRESSION, mtime=0), digest_of(tar))


def layer_of_files(files: Iterable[tuple[str, Path]], *, made_at: int) -> Layer:
    """`files`: place in the image -> file here. Only whether one may be executed is kept of its mode."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for place, path in sorted(files):
            info = tarfile.TarInfo(place.lstrip("/"))
            info.mtime, info.size = made_at, path.stat().st_size
            info.mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
            with path.open("rb") as content:
                tar.addfile(info, content)
    return layer_of_tar(packed.getvalue())


def assemble(
    layers: Sequence[Layer],
    *,
    architecture: str,
    settings: Mapping[str, Any],
    created: str,
) -> Image:
    """`settings` is the config's `config`: Env, Entrypoint, User and so on."""
    config = encoded(
        {
            "architecture": architecture,
            "os": "linux",
            "created": created,
            "config": dict(settings),
            "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]},
        }
    )
    manifest = encoded(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": descriptor(CONFIG, config),
            "layers": [descriptor(LAYER, layer.content) for layer in layers],
        }
    )
    blobs = {digest_of(content): content for content in (config, *(layer.content for layer in layers))}
    return Image(architecture=architecture, manifest=manifest, blobs=blobs)


def read_archive(path: Path, *, architecture: str) -> Image:
    """The one image of an oci-archive, every blob checked."""
    with tarfile.open(path) as tar:
        members = {member.name.removeprefix("./"): member for member in tar.getmembers()}

        def held(name: str) -> bytes:
            file = tar.extractfile(members[name])
            return file.read() if file else b""

        def blob(digest: str) -> bytes:
            content = held(f"blobs/{digest.replace(':', '/')}")
            if digest_of(content) != digest:
                raise ValueError(f"{path}: blob {digest} is {digest_of(content)}")
            return content

        (entry,) = json.loads(held("index.json"))["manifests"]
        manifest = blob(entry["digest"])
        described = json.loads(manifest)
        named = [described["config"]["digest"], *(layer["digest"] for layer in described["layers"])]
        return Image(architecture=architecture, manifest=manifest, blobs={name: blob(name) for name in named})


def index_of(images: Sequence[Image]) -> bytes:
    """One reference for all platforms: each node takes its own."""
    entries = [
        {
            **descriptor(MANIFEST, image.manifest),
            "platform": {"architecture": image.architecture, "os": "linux"},
        }
        for image in sorted(images, key=lambda image: image.architecture)
    ]
    return encoded({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries})


def push(images: Sequence[Image], registry: Registry, *, tag: str) -> str:
    """Push the image and its index, and return the index's digest."""
    for image in images:
        for content in image.blobs.values():
            registry.push_blob(content)
        registry.push_manifest(image.manifest, MANIFEST)
    return registry.push_manifest(index_of(images), INDEX, tag=tag)


def descriptor(media_type: str, content: bytes) -> dict[str, Any]:
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    return {"mediaType": media_type, "digest": digest, "size": len(content)}


def encoded(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


# Documents of an image that are stored in its repository and name it as their subject.
# https://github.com/opencontainers/distribution-spec/blob/v1.1.1/spec.md, "Listing Referrers" and, for
# registries that do not know them, "Referrers Tag Schema".

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
