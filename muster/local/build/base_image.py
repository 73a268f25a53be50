"""The root file system below every Python image.

Responsible for: its content. mmdebstrap makes it and checks the archive's signatures. The user can give a
root file system of their own instead.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Iterator
from contextlib import suppress
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
_SNAPSHOTS: Final = "https://snapshot.debian.org/archive"
# Where packages came from is no part of what they are.
_UNADDRESSED: Final = 'rm -f "$1/etc/apt/sources.list"'
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
    return cache.entry("base", base.suite, key_of(json.dumps([*_described(base), platform.machine()])))


def _described(base: PythonBase) -> tuple[object, ...]:
    return base.suite, base.packages, base.revision, base.snapshot, _LEFT_OUT, _UNADDRESSED


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


def _foreign_entry(cache: Cache, base: PythonBase, machine: str) -> Entry:
    described = json.dumps([*_described(base), machine, _LISTED, "base-files"])
    return cache.entry("base", f"{base.suite}-{machine}", key_of(described))


def ensure_foreign_base(cache: Cache, children: Children, *, base: PythonBase, machine: str) -> Entry:
    """An entry with base.tar for another processor: the same packages unpacked, none of their scripts run.

    No emulation is needed for that. What scripts would have made is missing (accounts, the certificate
    bundle): the controller runs by number and trusts the cluster's own authority.
    """
    entry = _foreign_entry(cache, base, machine)
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
    """Of the packages that were recorded, where the archive or its snapshots still have them; else of newer
    ones. The file is the same to the byte wherever it is of the same packages.
    """
    argv = ["env", f"SOURCE_DATE_EPOCH={_MADE_AT}", f"TMPDIR={scratch}", "mmdebstrap"]
    if machine is None:
        argv += ["--variant=minbase", f"--customize-hook={_UNADDRESSED}"]
    else:
        argv += ["--variant=extract", f"--architectures={_DEBIAN[machine]}"]
        argv += [f"--extract-hook={hook}" for hook in (_LISTED, _UNADDRESSED)]
    # Everything essential is in ours; what is unpacked has to be named: base-files says which Debian it is.
    names = base.packages if machine is None else (*base.packages, "base-files")
    argv += [f"--include={','.join(names)}"]
    argv += [f"--dpkgopt=path-exclude={pattern}" for pattern in _LEFT_OUT]
    argv += [f"--dpkgopt=path-include={_KEPT}", base.suite]
    for attempt in range(1, _TRIES + 1):
        try:
            _check(children, [*argv, str(target)], suite=base.suite, seconds=1200)
            break
        except LocalClusterError:
            target.unlink(missing_ok=True)
            if attempt == _TRIES:
                raise
            children.stopping.wait(5.0 * attempt)
    recorded = base.sha256.get(_recorded_as(machine))
    if recorded in (None, file_sha256(target)):
        return
    former = scratch / "snapshot.tar"
    with suppress(LocalClusterError):  # Where the snapshots cannot be reached, newer packages are taken.
        _check(children, [*argv, str(former), *_snapshots(base)], suite=base.suite, seconds=300)
        if file_sha256(former) == recorded:
            former.replace(target)


def unrecorded(cache: Cache, base: PythonBase, machines: Iterable[str]) -> Iterator[str]:
    """Of the bases of our controller's image for these processors, those of other packages than the recorded
    ones, each as the record's line that it would be.
    """
    for machine in machines:
        is_own = machine == platform.machine()
        entry = base_entry(cache, base, own=None) if is_own else _foreign_entry(cache, base, machine)
        name, digest = _recorded_as(None if is_own else machine), file_sha256(entry.path / "base.tar")
        if base.sha256.get(name) != digest:
            yield f'sha256.{name} = "{digest}"'


def _recorded_as(machine: str | None) -> str:
    """The name of a base in the record; `machine` is another processor, whose packages are only unpacked."""
    return platform.machine() if machine is None else f"{machine}-unpacked"


def _snapshots(base: PythonBase) -> tuple[str, ...]:
    """The suite, its updates and its security updates as they were at the recorded moment."""
    source = f"deb [check-valid-until=no] {_SNAPSHOTS}/{{}}/{base.snapshot} {base.suite}{{}} main"
    return (
        source.format("debian", ""),
        source.format("debian", "-updates"),
        source.format("debian-security", "-security"),
    )


def _check(children: Children, argv: list[str], *, suite: str, seconds: float) -> None:
    children.check(
        argv,
        where=f"the {suite} base",
        fix="check the network to the distribution's archive, or name a root file system: "
        "muster local build --base FILE",
        timeout=seconds,
    )
