"""The root file system below every Python image.

Responsible for: its content. mmdebstrap makes it and checks the archive's signatures. The user can give a
root file system of their own instead.
"""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Final

from muster.local.build.cache import Cache, Entry, file_sha256, key_of
from muster.local.build.children import Children
from muster.local.build.versions import PythonBase
from muster.local.errors import LocalClusterError

_MADE_AT: Final = "1735689600"  # 2025-01-01: a fixed time, so that the same packages give the same bytes
_TRIES: Final = 3
# A processor as the kernel calls it -> as the distribution does.
_DEBIAN: Final = {"x86_64": "amd64", "aarch64": "arm64"}
_LEFT_OUT: Final = ("/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*", "/usr/share/doc/*")
_KEPT: Final = "/usr/share/doc/*/copyright"
# Nothing installs what is only unpacked, so nothing would list it: scanners and our bill of materials read
# each package's control file here, as they do in distroless images.
_LISTED: Final = """
mkdir -p "$1/var/lib/dpkg/status.d"
for deb in "$1"/var/cache/apt/archives/*.deb; do
  dpkg-deb --field "$deb" > "$1/var/lib/dpkg/status.d/$(dpkg-deb --field "$deb" Package)"
done
"""


def base_entry(cache: Cache, base: PythonBase, *, own: Path | None) -> Entry:
    """`own` is a root file system as a tar file with Python in /usr/bin/python3, instead of ours."""
    if own is not None:
        if not own.is_file():
            raise LocalClusterError(
                str(own), "is not a file", fix="give a tar file of a root file system as the base"
            )
        return cache.entry("base", "own", key_of(file_sha256(own)))
    described = json.dumps([base.suite, base.packages, base.revision, _LEFT_OUT, platform.machine()])
    return cache.entry("base", base.suite, key_of(described))


def ensure_base(cache: Cache, children: Children, *, base: PythonBase, own: Path | None = None) -> Entry:
    """An entry with base.tar."""
    entry = base_entry(cache, base, own=own)
    with cache.lock(f"base-{entry.name}", stopping=children.stopping):
        if entry.exists:
            cache.touch(entry)
            return entry
        with cache.scratch("base") as scratch:
            tree = scratch / "tree"
            tree.mkdir()
            if own is not None:
                (tree / "base.tar").write_bytes(own.read_bytes())
            else:
                _bootstrap(children, base=base, target=tree / "base.tar", scratch=scratch)
            cache.publish(entry, tree)
    return entry


def ensure_foreign_base(cache: Cache, children: Children, *, base: PythonBase, machine: str) -> Entry:
    """An entry with base.tar for another processor: the same packages unpacked, none of their scripts run.

    No emulation is needed for that. What scripts would have made is missing (accounts, the certificate
    bundle): the controller runs by number and trusts the cluster's own authority.
    """
    described = json.dumps(
        [base.suite, base.packages, base.revision, _LEFT_OUT, machine, _LISTED, "base-files"]
    )
    entry = cache.entry("base", f"{base.suite}-{machine}", key_of(described))
    with cache.lock(f"base-{entry.name}", stopping=children.stopping):
        if not entry.exists:
            with cache.scratch("base") as scratch:
                tree = scratch / "tree"
                tree.mkdir()
                _bootstrap(children, base=base, target=tree / "base.tar", scratch=scratch, machine=machine)
                cache.publish(entry, tree)
    cache.touch(entry)
    return entry


def _bootstrap(
    children: Children, *, base: PythonBase, target: Path, scratch: Path, machine: str | None = None
) -> None:
    argv = ["env", f"SOURCE_DATE_EPOCH={_MADE_AT}", f"TMPDIR={scratch}", "mmdebstrap"]
    if machine is None:
        argv += ["--variant=minbase"]
    else:
        argv += ["--variant=extract", f"--architectures={_DEBIAN[machine]}", f"--extract-hook={_LISTED}"]
    # Everything essential is in ours; what is unpacked has to be named: base-files says which Debian it is.
    names = base.packages if machine is None else (*base.packages, "base-files")
    argv += [f"--include={','.join(names)}"]
    argv += [f"--dpkgopt=path-exclude={pattern}" for pattern in _LEFT_OUT]
    argv += [f"--dpkgopt=path-include={_KEPT}", base.suite, str(target)]
    for attempt in range(1, _TRIES + 1):
        try:
            children.check(
                argv,
                where=f"the {base.suite} base",
                fix="check the network to the distribution's archive, or name a root file system: "
                "muster local build --base FILE",
                timeout=1200,
            )
            return
        except LocalClusterError:
            target.unlink(missing_ok=True)
            if attempt == _TRIES:
                raise
            children.stopping.wait(5.0 * attempt)
