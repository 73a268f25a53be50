"""Where the programs and files are that the local plane built: for tests that need some of them and no plane.

Taken from the file that MUSTER_ARTIFACTS names, or from the local plane's cache.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def program(name: str) -> Path | None:
    named = artifacts().get("programs", {}).get(name)
    return Path(named) if named else newest(f"bin/{name}/*/{name}")


def tools() -> Path | None:
    """The folder with everything that `pulumi` needs on PATH."""
    named = artifacts().get("path")
    return Path(named) if named else newest("path/programs/*")


def provisioning_requests() -> Path | None:
    """The file with the ProvisioningRequest CRD."""
    named = artifacts().get("crds", {}).get("provisioningrequests")
    return Path(named) if named else newest("assets/provisioningrequest-crd*/*/*provisioningrequests.yaml")


def artifacts() -> dict[str, Any]:
    path = os.environ.get("MUSTER_ARTIFACTS")
    return dict(json.loads(Path(path).read_text())) if path else {}


def newest(pattern: str) -> Path | None:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    root = Path(os.environ.get("MUSTER_CACHE") or Path(base) / "muster")
    found = sorted(root.glob(pattern), key=lambda path: path.stat().st_mtime)
    return found[-1] if found else None
