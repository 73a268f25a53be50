"""Charts and manifests that are copied out of Go modules.

Responsible for: which files are copied, read-only. The module's hash is compared with go.sum, so the files
are the published ones.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from muster.local.build.cache import Cache, Entry, key_of
from muster.local.build.go import GoBuilder
from muster.local.build.versions import Asset
from muster.local.errors import LocalClusterError


def asset_entry(cache: Cache, asset: Asset) -> Entry:
    described = json.dumps([asset.module, asset.version, asset.path, asset.keep])
    return cache.entry("assets", f"{asset.name}-{asset.version}", key_of(described))


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


def _copy(source: Path, target: Path) -> None:
    """Directories stay writable, so that the cache can be removed; files do not."""
    if source.is_file():
        shutil.copyfile(source, target)
        target.chmod(0o444)
        return
    target.mkdir()
    for child in sorted(source.iterdir()):
        _copy(child, target / child.name)
