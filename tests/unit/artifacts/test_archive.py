"""An oci-archive holds the images of all platforms, each blob under its digest, always in the same bytes."""

import io
import json
import tarfile

from muster.artifacts.oci.image import Image, assemble, index_of, layer_of_tar
from muster.artifacts.oci.registry import digest_of
from release.packages import archive_of


def image(architecture: str) -> Image:
    made = [layer_of_tar(b"shared"), layer_of_tar(architecture.encode())]
    return assemble(made, architecture=architecture, settings={}, created="2025-01-01T00:00:00Z")


def test_an_archive_leads_from_its_index_to_every_blob() -> None:
    images = [image("amd64"), image("arm64")]
    packed = archive_of(images, made_at=1)
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        held = {each.name: tar.extractfile(each).read() for each in tar.getmembers()}  # type: ignore[union-attr]
    for name, content in held.items():
        if name.startswith("blobs/"):
            assert name == f"blobs/{digest_of(content).replace(':', '/')}"
    (entry,) = json.loads(held["index.json"])["manifests"]
    assert entry["digest"] == digest_of(index_of(images))
    index = json.loads(held[f"blobs/{entry['digest'].replace(':', '/')}"])
    assert [each["platform"]["architecture"] for each in index["manifests"]] == ["amd64", "arm64"]
    for each in index["manifests"]:
        manifest = json.loads(held[f"blobs/{each['digest'].replace(':', '/')}"])
        for blob in (manifest["config"], *manifest["layers"]):
            assert len(held[f"blobs/{blob['digest'].replace(':', '/')}"]) == blob["size"]
    assert archive_of(images, made_at=1) == packed
