"""Node stores: containerd roots in which all images of a node are unpacked already.

Responsible for: making such a root once in the cache, and copying it to a node in about a second. Layers
and blobs never change and are linked; the two databases are copied. So cache and nodes must be on one disk.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from muster.bounded_yaml import load_all
from muster.local import LocalClusterError
from muster.local.builder.cache import Cache, Entry, census, key_of
from muster.local.builder.children import Children
from muster.local.builder.go import GoBuilder
from muster.local.builder.images import Image
from muster.local.builder.versions import Asset, Origin

# Charts and manifests that are copied out of Go modules.
# The module's hash is compared with go.sum, so the files are the published ones.


def asset_entry(cache: Cache, asset: Asset) -> Entry:
    described = [asset.module, asset.version, asset.path, asset.keep, *filter(None, [asset.as_json])]
    return cache.entry("assets", f"{asset.name}-{asset.version}", key_of(json.dumps(described)))


def ensure_asset(cache: Cache, builder: GoBuilder, asset: Asset) -> Path:
    """The directory of the copy, made when it is missing or no longer what it was."""
    entry = asset_entry(cache, asset)
    with cache.lock(f"asset-{asset.name}"):
        if entry.exists and entry.fault() is None:
            cache.touch(entry)
            return entry.path
        tree = builder.module_directory(asset.directory, asset.module, asset.version) / asset.path
        with cache.scratch(asset.name) as scratch:
            copy = scratch / "tree"
            copy.mkdir()
            for source in _chosen(asset, tree):
                _copy(source, copy / source.name)
            if asset.as_json:
                _write_as_json(copy / asset.as_json)
            cache.publish(entry, copy)
    return entry.path


def _chosen(asset: Asset, tree: Path) -> list[Path]:
    if not asset.keep:
        return sorted(tree.iterdir())
    missing = [name for name in asset.keep if not (tree / name).exists()]
    if missing:
        raise LocalClusterError(
            f"asset {asset.name}",
            f"{asset.module}@{asset.version} has no {asset.path}/{missing[0]}",
            fix="correct `keep` in muster/artifacts/data/versions.toml",
        )
    return [tree / name for name in asset.keep]


def _write_as_json(folder: Path) -> None:
    for file in folder.glob("*.yaml"):
        (content,) = load_all(file.read_text())
        file.unlink()  # a copy cannot be written
        file.write_text(json.dumps(content, separators=(",", ":")))


def _copy(source: Path, target: Path) -> None:
    """Directories stay writable, so that the cache can be removed; files do not."""
    if source.is_file():
        shutil.copyfile(source, target)
        target.chmod(0o444)
        return
    target.mkdir()
    for child in sorted(source.iterdir()):
        _copy(child, target / child.name)


# The result of a build: paths of charts, manifests and programs, and images by digest.

# Scripts that the engine or the program starts by name, and that come with it.
_COMPANIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "pulumi-language-python": ("pulumi-language-python-exec", "pulumi-analyzer-policy-python"),
}


@dataclass(frozen=True, slots=True)
class Artifacts:
    """Everything that a local cluster needs.

    `assets` maps an asset's name to its directory, `stores` a kind of node to
    the containerd root that `store.seed` copies from. `path` holds the Pulumi
    programs and kubectl, chosen to fit each other: put it first on PATH.
    """

    programs: Mapping[str, Path]
    assets: Mapping[str, Path]
    images: Mapping[str, Image]
    stores: Mapping[str, Path]
    path: Path
    origins: Mapping[str, Origin] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        crd = self.assets["provisioningrequest-crd"]
        return {
            "charts": {"kueue": str(self.assets["kueue-chart"])},
            "kustomize": {"kuberay": str(self.assets["kuberay-config"] / "default")},
            "crds": {"provisioningrequests": str(next(crd.glob("*.yaml")))},
            "stages": {"kwok": str(self.assets["kwok-stages"])},
            "images": {name: image.reference for name, image in sorted(self.images.items())},
            "programs": {name: str(path) for name, path in sorted(self.programs.items())},
            "origins": {name: origin.record() for name, origin in sorted(self.origins.items())},
            "path": str(self.path),
        }

    def write(self, target: Path) -> None:
        """Replace the file in one step: a reader sees the old or the new one."""
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = target.with_name(f".{target.name}.{os.getpid()}")
        fresh.write_text(json.dumps(self.document(), indent=2) + "\n", encoding="utf-8")
        fresh.replace(target)


def link_programs(cache: Cache, programs: Mapping[str, Path]) -> Path:
    """A directory with links to exactly these programs, and to the scripts that come with them."""
    wanted = dict(sorted(programs.items()))
    for path in list(wanted.values()):
        for name in _COMPANIONS.get(path.name, ()):
            if (companion := path.parent / name).exists():
                wanted[name] = companion
    described = json.dumps({name: str(path) for name, path in wanted.items()}, sort_keys=True)
    entry = cache.entry("path", "programs", key_of(described))
    with cache.lock("path-programs"):
        if not entry.exists:
            with cache.scratch("path") as scratch:
                tree = scratch / "tree"
                tree.mkdir()
                for name, path in wanted.items():
                    (tree / name).symlink_to(path)
                cache.publish(entry, tree)
    cache.touch(entry)
    return entry.path


_NAMESPACE: Final = "k8s.io"  # where the kubelet's containerd keeps everything
_START_SECONDS: Final = 30.0
_IMPORT_SECONDS: Final = 300.0
_CONTENT: Final = "io.containerd.content.v1.content"
_SNAPSHOTTER: Final = "io.containerd.snapshotter.v1.overlayfs"
_SNAPSHOTS: Final = f"{_SNAPSHOTTER}/snapshots"
_LINKED: Final = (f"{_CONTENT}/blobs", _SNAPSHOTS)
_COPIED: Final = ("io.containerd.metadata.v1.bolt/meta.db", f"{_SNAPSHOTTER}/metadata.db")
_CENSUS: Final = "layers.txt"
_RECIPE: Final = "2"


def ensure_store(
    cache: Cache, children: Children, *, name: str, images: Sequence[Image], onto: Sequence[Image] = ()
) -> Path:
    """A containerd root that holds exactly `onto` and `images`, unpacked.

    `onto` are the images that seldom change: they get a store of their own, from
    which this one starts, so that a changed `images` costs only its own import.
    """
    entry = _entry(cache, name=name, images=[*onto, *images])
    with cache.lock(f"store-{name}", stopping=children.stopping):
        if entry.exists and _fault(entry) is None:
            cache.touch(entry)
            return entry.path / "root"
        for image in images:
            cache.usable(image.entry, what=f"image {image.name}")
        with cache.scratch(f"store-{name}") as scratch:
            root = scratch / "tree" / "root"
            root.mkdir(parents=True)
            if onto:
                seed(ensure_store(cache, children, name=f"{name}-base", images=onto), root)
            with _containerd(root) as socket:
                for image in images:
                    _import(children, socket, image=image)
            _strip(root)
            (scratch / "tree" / _CENSUS).write_text(census(root / _SNAPSHOTS), encoding="utf-8")
            cache.publish(entry, scratch / "tree", unsummed=[f"root/{tree}" for tree in _LINKED])
    return entry.path / "root"


def seed(store: Path, root: Path) -> None:
    """Give a node a containerd root of its own with every image of the store in it.

    `root` is the `root` of the node's containerd configuration; it may exist, empty.
    """
    try:
        for relative in _LINKED:
            target = root / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            _link_tree(store / relative, target)
        for relative in _COPIED:
            target = root / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(store / relative, target)
            target.chmod(0o600)
    except subprocess.CalledProcessError as problem:
        output = problem.stderr.strip().splitlines()[-1:] or ["no message"]
        raise LocalClusterError(
            str(root),
            f"cannot be filled from the image store ({output[0]})",
            fix="put the nodes' disks on the file system of the cache (MUSTER_CACHE)",
        ) from problem
    for directory in (_CONTENT, _SNAPSHOTTER):
        (root / directory).chmod(0o700)


def _fault(entry: Entry) -> str | None:
    """The databases are compared by checksum, the unpacked layers by number and size of their files."""
    if fault := entry.fault():
        return fault
    if (entry.path / _CENSUS).read_text(encoding="utf-8") != census(entry.path / "root" / _SNAPSHOTS):
        return "files of its layers are missing or changed"
    return None


def _entry(cache: Cache, *, name: str, images: Sequence[Image]) -> Entry:
    version = subprocess.run(
        ["containerd", "--version"], capture_output=True, text=True, timeout=20, check=True
    ).stdout
    # The databases' form belongs to the containerd that wrote them.
    return cache.entry("stores", name, key_of(_RECIPE, version, *(image.reference for image in images)))


def _link_tree(source: Path, target: Path) -> None:
    subprocess.run(
        ["cp", "--archive", "--link", "--no-target-directory", str(source), str(target)],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )


def _import(children: Children, socket: Path, *, image: Image) -> None:
    ctr = ["ctr", "--address", str(socket), "--namespace", _NAMESPACE, "images"]
    managed = "io.cri-containerd.image=managed"  # the kubelet's side of containerd looks at no others
    for argv in (
        [*ctr, "import", "--snapshotter", "overlayfs", str(image.archive)],
        [*ctr, "tag", "--force", image.tagged, image.reference],
        [*ctr, "label", image.tagged, managed],
        [*ctr, "label", image.reference, managed],
    ):
        children.check(
            argv,
            where=f"image {image.tagged}",
            fix="start again; if it stays, remove muster/artifacts/publish/ and stores/ in the cache",
            timeout=_IMPORT_SECONDS,
        )


@contextmanager
def _containerd(root: Path) -> Iterator[Path]:
    """Run a private containerd in a mount namespace of its own until the block ends."""
    state = Path(tempfile.mkdtemp(prefix="muster-store-", dir="/run"))
    socket, log = state / "containerd.sock", state / "log"
    config = state / "config.toml"
    config.write_text(_configuration(root, state=state, socket=socket), encoding="utf-8")
    with log.open("w") as output:
        process = subprocess.Popen(
            ["unshare", "--mount", "containerd", "--config", str(config)],
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    try:
        _await(process, socket=socket, log=log)
        yield socket
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_START_SECONDS)
        process.kill()
        process.wait()
        shutil.rmtree(state, ignore_errors=True)


def _configuration(root: Path, *, state: Path, socket: Path) -> str:
    return f"""version = 2
root = "{root}"
state = "{state}/state"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.tracing.processor.v1.otlp"]
[grpc]
address = "{socket}"
[ttrpc]
address = "{socket}.ttrpc"
[plugins."io.containerd.internal.v1.opt"]
path = "{state}/opt"
"""


def _await(process: subprocess.Popen[bytes], *, socket: Path, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        probe = subprocess.run(
            ["ctr", "--address", str(socket), "--timeout", "2s", "version"],
            capture_output=True,
            timeout=20,
            check=False,
        )
        if probe.returncode == 0:
            return
        time.sleep(0.1)
    said = log.read_text(encoding="utf-8", errors="replace").splitlines()[-2:]
    raise LocalClusterError(
        "containerd", f"does not start ({' | '.join(said)})", fix="run it by hand with the same configuration"
    )


def _strip(root: Path) -> None:
    """Only what `seed` hands on stays: the rest is one daemon's own."""
    kept = {relative.split("/", 1)[0] for relative in (*_LINKED, *_COPIED)}
    for child in root.iterdir():
        if child.name not in kept:
            shutil.rmtree(child)
