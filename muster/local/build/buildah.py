"""Images out of a directory and a Containerfile, with buildah.

Decides how buildah is called so that it needs no daemon, no registry and no
network, leaves nothing behind, and gives the same digest for the same files.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from muster.local.build.children import Children
from muster.local.errors import LocalClusterError

MADE_AT: Final = 1735689600  # 2025-01-01, for every file: the digest depends on content alone
_SECONDS: Final = 900.0


@dataclass(frozen=True, slots=True)
class Job:
    """One image to build. `context` is what COPY and ADD see; `tag` such as muster.local/kueue:v0.19.2."""

    containerfile: Path
    context: Path
    tag: str
    arguments: Mapping[str, str]
    labels: Mapping[str, str]
    layers: bool = False


def build(children: Children, job: Job, *, scratch: Path, archive: Path) -> None:
    """Write the image as an oci-archive. `scratch` holds buildah's storage; the caller removes it."""
    bud = [*_buildah(scratch), "bud", "--isolation", "chroot", "--timestamp", str(MADE_AT)]
    bud += [f"--layers={'true' if job.layers else 'false'}"]
    bud += [item for key, value in job.arguments.items() for item in ("--build-arg", f"{key}={value}")]
    bud += [item for key, value in job.labels.items() for item in ("--label", f"{key}={value}")]
    bud += ["--file", str(job.containerfile), "--tag", job.tag, str(job.context)]
    push = [*_buildah(scratch), "push", job.tag, f"oci-archive:{archive}:{job.tag}"]
    for argv in (bud, push):
        children.check(
            argv,
            where=f"image {job.tag}",
            fix="see the output of buildah; it must be version 1.28 or newer",
            timeout=_SECONDS,
        )


def _buildah(scratch: Path) -> list[str]:
    """In a network namespace of its own: the chroot isolation has no other way to cut a build off.

    In a mount namespace of its own, so that an end by force leaves no mount. The overlay driver is
    what nodes use too; without it (vfs) each instruction copies the whole root file system.
    """
    storage = ["--storage-driver", "overlay", "--root", str(scratch / "storage")]
    return ["unshare", "--net", "--mount", "buildah", *storage, "--runroot", str(scratch / "run")]


def manifest_digest(archive: Path) -> str:
    """The digest under which the archive's one image is known, such as "sha256:12ab..."."""
    with tarfile.open(archive) as tar:
        member = tar.extractfile("index.json")
        index = json.loads(member.read()) if member else {}
    manifests = index.get("manifests", [])
    if len(manifests) != 1:
        raise LocalClusterError(
            str(archive), f"holds {len(manifests)} images, not one", fix="remove it and start again"
        )
    return str(manifests[0]["digest"])
