"""The result of a build: paths of charts, manifests and programs, and images by digest.

Responsible for: the form of artifacts.json, which the Pulumi program reads through the environment variable
MUSTER_ARTIFACTS, and the directory for PATH.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from muster.local.build.cache import Cache, key_of
from muster.local.build.images import Image
from muster.local.build.origins import Origin

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
