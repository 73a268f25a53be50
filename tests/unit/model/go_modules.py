"""Where the Go toolchain keeps a module's source, for tests that hold ours against others' definitions."""

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest


@cache
def module_cache() -> Path:
    """The GOMODCACHE that go itself would use."""
    named = os.environ.get("GOMODCACHE")
    if not named and shutil.which("go"):
        answer = subprocess.run(
            ["go", "env", "GOMODCACHE"], capture_output=True, text=True, timeout=60, check=False
        )
        named = answer.stdout.strip()
    return Path(named) if named else Path.home() / "go" / "pkg" / "mod"


def source_of(module: str, path: str) -> Path:
    """A file or folder of a module, or a skip that says which module to download."""
    found = module_cache() / module / path
    if not found.exists():
        pytest.skip(f"{module} is not in the Go module cache: `make up` downloads it")
    return found


KUEUE = "sigs.k8s.io/kueue@v0.19.2"
