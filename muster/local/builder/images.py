"""The images of the local cluster: what each contains, and when it has to be built again.

Responsible for: names, contents and keys. Clusters refer to an image by the digest of its manifest only, so
a changed file is a changed reference and no node runs an outdated image.
"""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from muster.local import LocalClusterError
from muster.local.builder.base_image import ensure_base, ensure_foreign_base, ensure_packages
from muster.local.builder.cache import Cache, Entry, file_sha256, key_of
from muster.local.builder.children import Children
from muster.local.builder.versions import Versions
from muster.local.kai import RESERVATION
from muster.paths import PACKAGE, REQUIREMENTS

# Images out of a directory and a Containerfile, with buildah.
# Decides how buildah is called so that it needs no daemon, no registry and no
# network, leaves nothing behind, and gives the same digest for the same files.

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


REGISTRY: Final = "muster.local"
# Charts run as this user; it is the "nonroot" of the distroless images that they usually name.
_NONROOT: Final = "65532:65532"
_CONTAINERFILES: Final = Path(__file__).parent / "containerfiles"
_CONTROLLER: Final = PACKAGE / "controller" / "Containerfile"
# Image -> path of the program in it: the charts' commands name these paths.
BINARY_IMAGES: Final[Mapping[str, str]] = {
    "pause": "/pause",
    "coredns": "/coredns",
    "kueue": "/manager",
    "kuberay": "/manager",
    RESERVATION: "/reservation",
}
# What of the package `muster` is in the controller's image: the controller, and the recorder of replays.
CONTROLLER_PARTS: Final = (
    *("__init__.py", "LICENSE", "errors.py", "printable.py", "whole_file.py"),
    *("controller", "kubernetes", "live", "model", "replay", "usage"),
)
RECORDER: Final = "recorder"
PLAYER: Final = "kueue-player"
# muster/render/recorder.py names it, too.
PLAYER_PLACE: Final = "/opt/muster/kueue-player"
# Counted up when the way in which images are built changes.
_RECIPE: Final = "2"


@dataclass(frozen=True, slots=True)
class Image:
    """A built image; `digest` is that of its manifest."""

    name: str
    tag: str
    digest: str
    entry: Entry

    @property
    def archive(self) -> Path:
        """The image as an oci-archive."""
        return self.entry.path / "image.tar"

    @property
    def tagged(self) -> str:
        return f"{REGISTRY}/{self.name}:{self.tag}"

    @property
    def reference(self) -> str:
        """How everything refers to the image."""
        return f"{REGISTRY}/{self.name}@{self.digest}"


@dataclass(frozen=True, slots=True)
class _Plan:
    name: str
    tag: str
    key: str
    containerfile: Path | str
    files: Mapping[str, Path]
    arguments: Mapping[str, str]
    labels: Mapping[str, str]
    inputs: tuple[Entry, ...] = ()
    layers: bool = False


class ImageBuilder:
    """Builds images whose parts are there; every method answers from the cache when it can."""

    def __init__(self, cache: Cache, children: Children, *, versions: Versions, base: Path | None) -> None:
        self._cache = cache
        self._children = children
        self._versions = versions
        self._own_base = base

    def binary(self, name: str, program: Path) -> Image:
        """Nothing but one static program."""
        inside = BINARY_IMAGES[name]
        containerfile = "\n".join(
            ("FROM scratch", f"COPY program {inside}", f"USER {_NONROOT}", f'ENTRYPOINT ["{inside}"]', "")
        )
        return self._ensure(
            _Plan(
                name=name,
                tag=self._versions.programs[name].version,
                key=key_of(_RECIPE, containerfile, file_sha256(program)),
                containerfile=containerfile,
                files={"program": program},
                arguments={},
                labels=_labels(name, self._versions.programs[name].version),
            )
        )

    def base(self) -> Entry:
        return ensure_base(self._cache, self._children, base=self._versions.python_base, own=self._own_base)

    def python(self) -> Image:
        """The base as an image; the other Python images build on its layer."""
        entry = self.base()
        containerfile = _CONTAINERFILES / "python.Containerfile"
        pinned = self._versions.python_base
        tag = f"{pinned.python}-{entry.name}-{pinned.revision}"
        return self._ensure(
            _Plan(
                name="python",
                tag=tag,
                key=key_of(_RECIPE, containerfile.read_bytes(), entry.name, entry.key),
                containerfile=containerfile,
                files={"base.tar": entry.path / "base.tar"},
                inputs=(entry,),
                arguments={},
                labels=_labels("python", tag),
            )
        )

    def foreign(self, machine: str) -> tuple[Entry, Entry]:
        """Base and packages of our controller's image for another processor."""
        base = ensure_foreign_base(
            self._cache, self._children, base=self._versions.python_base, machine=machine
        )
        return base, self.packages("gang-admission", machine=machine)

    def packages(self, name: str, *, machine: str | None = None) -> Entry:
        return ensure_packages(
            self._cache,
            self._children,
            name=name,
            requirements=REQUIREMENTS / self._versions.requirements[name],
            python=self._versions.python_base.python,
            machine=machine,
        )

    def ray(self) -> Image:
        python, packages = self.python(), self.packages("ray")
        containerfile = _CONTAINERFILES / "ray.Containerfile"
        return self._ensure(
            _Plan(
                name="ray",
                tag=self._versions.ray,
                key=key_of(_RECIPE, containerfile.read_bytes(), python.digest, packages.key),
                containerfile=containerfile,
                files={"site": packages.path / "site", "bin": packages.path / "bin"},
                arguments={"BASE": f"oci-archive:{python.archive}"},
                inputs=(python.entry, packages),
                labels=_labels("ray", self._versions.ray),
            )
        )

    def gang_admission(self) -> Image:
        """Our controller. Its packages are a layer of their own below its code."""
        if not _CONTROLLER.is_file():
            raise LocalClusterError(
                "muster/controller/Containerfile", "is missing", fix="restore the file from version control"
            )
        python, packages = self.python(), self.packages("gang-admission")
        code = {f"muster/{part}": PACKAGE / part for part in CONTROLLER_PARTS}
        sources = {place: data for part, source in code.items() for place, data in _sources(part, source)}
        key = key_of(
            _RECIPE,
            _CONTROLLER.read_bytes(),
            python.digest,
            packages.key,
            *(part for path, data in sorted(sources.items()) for part in (path, data)),
        )
        return self._ensure(
            _Plan(
                name="gang-admission",
                tag=key[:12],
                key=key,
                containerfile=_CONTROLLER,
                files={"site": packages.path / "site", "bin": packages.path / "bin", **code},
                arguments={"BASE": f"oci-archive:{python.archive}"},
                inputs=(python.entry, packages),
                labels={
                    **_labels("gang-admission", key[:12]),
                    "dev.muster.packages": " ".join(package_list(packages.path / "site")),
                },
                layers=True,
            )
        )

    def recorder(self, player: Path) -> Image:
        """Our controller's image with the player, by which a recorder forecasts."""
        base = self.gang_admission()
        containerfile = f"ARG BASE\nFROM ${{BASE}}\nCOPY {PLAYER} {PLAYER_PLACE}\n"
        key = key_of(_RECIPE, containerfile, base.digest, file_sha256(player))
        return self._ensure(
            _Plan(
                name=RECORDER,
                tag=key[:12],
                key=key,
                containerfile=containerfile,
                files={PLAYER: player},
                arguments={"BASE": f"oci-archive:{base.archive}"},
                inputs=(base.entry,),
                labels=_labels(RECORDER, key[:12]),
                layers=True,
            )
        )

    def _ensure(self, plan: _Plan) -> Image:
        entry = self._cache.entry("images", plan.name, plan.key)
        with self._cache.lock(f"image-{plan.name}", stopping=self._children.stopping):
            if not entry.exists:
                self._build(plan, entry)
        self._cache.touch(entry)
        recorded = json.loads((entry.path / "image.json").read_text(encoding="utf-8"))
        return Image(name=plan.name, tag=recorded["tag"], digest=recorded["digest"], entry=entry)

    def _build(self, plan: _Plan, entry: Entry) -> None:
        for part in plan.inputs:
            self._cache.usable(part, what=f"{part.name}, a part of image {plan.name},")
        with self._cache.scratch(plan.name) as scratch:
            context, tree = scratch / "context", scratch / "tree"
            context.mkdir()
            tree.mkdir()
            for name, source in plan.files.items():
                copy_source(source, context / name)
            containerfile = plan.containerfile
            if isinstance(containerfile, str):
                (scratch / "Containerfile").write_text(containerfile, encoding="utf-8")
                containerfile = scratch / "Containerfile"
            job = Job(
                containerfile=containerfile,
                context=context,
                tag=f"{REGISTRY}/{plan.name}:{plan.tag}",
                arguments=plan.arguments,
                labels=plan.labels,
                layers=plan.layers,
            )
            build(self._children, job, scratch=scratch, archive=tree / "image.tar")
            record = {"tag": plan.tag, "digest": manifest_digest(tree / "image.tar")}
            (tree / "image.json").write_text(json.dumps(record) + "\n", encoding="utf-8")
            self._cache.publish(entry, tree)


def package_list(site: Path) -> list[str]:
    """ "name==version" of everything installed in a directory."""
    found = []
    for directory in sorted(site.glob("*.dist-info")):
        name, _, version = directory.name.removesuffix(".dist-info").rpartition("-")
        found.append(f"{name}=={version}")
    return found


def _labels(name: str, version: str) -> dict[str, str]:
    return {"org.opencontainers.image.title": name, "org.opencontainers.image.version": version}


def _sources(place: str, source: Path) -> list[tuple[str, bytes]]:
    if source.is_file():
        return [(place, source.read_bytes())]
    return [
        (f"{place}/{path.relative_to(source)}", path.read_bytes())
        for path in sorted(source.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    ]


def copy_source(source: Path, target: Path) -> None:
    """Copy a file or a directory to where an image takes it from, without bytecode of this machine."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(
            source, target, copy_function=_copy, ignore=shutil.ignore_patterns("__pycache__"), symlinks=True
        )
    else:
        _copy(str(source), str(target))


def _copy(source: str, target: str) -> None:
    """The image's layers get one time for all files; bytecode made before that has to agree with it."""
    shutil.copy(source, target)
    os.utime(target, (MADE_AT, MADE_AT))
