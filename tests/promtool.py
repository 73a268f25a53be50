"""Prometheus' own checker of rules, `promtool`: from PATH, or from Debian's package without installing it."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

from muster.local.builder.cache import cache_root
from tests import built

_PACKAGE: Final = "prometheus"
_SECONDS: Final = 300


def promtool() -> Path:
    """The program, or the end of the test. The package is unpacked into the cache, so no server starts."""
    if found := shutil.which("promtool"):
        return Path(found)
    folder = cache_root() / "promtool"
    program = folder / "usr" / "bin" / "promtool"
    if not program.exists():
        if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
            built.absent("promtool", build=f"apt-get install {_PACKAGE}")
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.glob("*.deb"):
            path.unlink()
        _run("apt-get", "-q", "update", folder=folder)
        _run("apt-get", "-q", "-o", "Acquire::Retries=3", "download", _PACKAGE, folder=folder)
        (archive,) = folder.glob("*.deb")
        _run("dpkg-deb", "--extract", archive.name, ".", folder=folder)
        archive.unlink()
    return program


def _run(*command: str, folder: Path) -> None:
    result = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    if result.returncode != 0:
        built.absent(f"promtool ({' '.join(command)}: {result.stderr.strip()[-200:]})")
