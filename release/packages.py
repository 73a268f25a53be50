"""The parts of a release: the Python package, the controller's image, the site."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from muster.artifacts.oci.image import Image, descriptor, encoded, index_of, layer_of_files
from muster.artifacts.oci.registry import INDEX, digest_of
from muster.artifacts.publish.bom import bill
from muster.distribution import wheel_name
from muster.paths import PACKAGE
from release.bill import bill_of_wheel
from release.errors import ReleaseError

CONSTRAINTS: Final = PACKAGE / "artifacts/data/requirements/constraints.txt"
_TIMEOUT: Final = 900


def python_package(root: Path, folder: Path, *, version: str, made_at: int) -> None:
    """The wheel, the sdist, and the bill of the versions that were tested."""
    _python(root, "build", "--no-isolation", "--outdir", str(folder), made_at=made_at)
    created = datetime.fromtimestamp(made_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    constraints, wheel = CONSTRAINTS.read_text(encoding="utf-8"), folder / wheel_name(version)
    content = bill_of_wheel(version, constraints, wheel=wheel, created=created)
    (folder / f"muster-{version}.cdx.json").write_bytes(content)


def image(folder: Path, *, version: str, made_at: int, is_draft: bool) -> None:
    """The image for both processors in one archive, and a bill for each. Anybody can make the same archive of
    the commit, so only a draft stands on other packages of the distribution than the recorded ones.
    """
    # Brings the image builder, which the other parts do not need.
    from muster.artifacts.publish.build import CREATED, MACHINES, build
    from muster.local.builder.base_image import unrecorded
    from muster.local.builder.cache import Cache
    from muster.local.builder.versions import load

    images = build()
    if found := list(unrecorded(Cache(), load().python_base, MACHINES.values())):
        message = "the distribution has other packages than `python-base` of versions.toml records:"
        fix = (
            "build where snapshot.debian.org can be reached, or review the packages and record these digests."
        )
        error = ReleaseError("\n".join([message, *found, f"Fix: {fix}"]))
        if not is_draft:
            raise error
        print(f"draft: {error}", file=sys.stderr)
    (folder / f"gang-admission-{version}.oci.tar").write_bytes(archive_of(images, made_at=made_at))
    for each in images:
        name = f"gang-admission-{version}-{each.architecture}.cdx.json"
        (folder / name).write_bytes(bill(each, created=CREATED))


def site(root: Path, folder: Path, *, version: str, made_at: int) -> None:
    """The documentation, in one folder of a tar archive."""
    with tempfile.TemporaryDirectory(prefix="muster-site-") as made:
        _python(root, "mkdocs", "build", "--strict", "--quiet", "--site-dir", made, made_at=made_at)
        packed = layer_of_files(_placed(Path(made), f"muster-{version}-site"), made_at=made_at)
    (folder / f"muster-{version}-site.tar.gz").write_bytes(packed.content)


def _placed(folder: Path, name: str) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield f"{name}/{path.relative_to(folder)}", path


def _python(root: Path, *module: str, made_at: int) -> None:
    # https://reproducible-builds.org/specs/source-date-epoch/
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(made_at), "NO_MKDOCS_2_WARNING": "1"}
    try:
        done = subprocess.run(
            (sys.executable, "-m", *module),
            cwd=root,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ReleaseError(f"{module[0]} did not end within {_TIMEOUT} s. Fix: run it by itself.") from error
    if done.returncode:
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-20:])
        raise ReleaseError(f"{module[0]} failed:\n{said}\nFix: see its words above.")


def archive_of(images: Sequence[Image], *, made_at: int) -> bytes:
    """The images of all platforms as one oci-archive, which skopeo and podman read.
    Source: https://github.com/opencontainers/image-spec/blob/main/image-layout.md, read 2026-11-24
    """
    index = index_of(images)
    blobs = {digest_of(content): content for content in (index, *(image.manifest for image in images))}
    for image in images:
        blobs |= image.blobs
    files = {f"blobs/{digest.replace(':', '/')}": content for digest, content in blobs.items()}
    files["oci-layout"] = encoded({"imageLayoutVersion": "1.0.0"})
    files["index.json"] = encoded(
        {"schemaVersion": 2, "mediaType": INDEX, "manifests": [descriptor(INDEX, index)]}
    )
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for place, content in sorted(files.items()):
            info = tarfile.TarInfo(place)
            info.mtime, info.size, info.mode = made_at, len(content), 0o644
            tar.addfile(info, io.BytesIO(content))
    return packed.getvalue()
