"""What is below and beside our code in every Python image: the root file system, and Python packages that are
installed on the host for the image's interpreter.

mmdebstrap makes the root file system and checks the archive's signatures; the user can give one of their own
instead. Wheels are chosen that fit the image, not the host, and the scripts are corrected. Versions and
hashes come from requirements/*.txt; nothing is compiled from source.
"""

from __future__ import annotations

import json
import platform
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from packaging.requirements import InvalidRequirement, Requirement

from muster.local import LocalClusterError
from muster.local.builder.cache import Cache, Entry, file_sha256, key_of
from muster.local.builder.children import Children
from muster.local.builder.versions import PythonBase

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


# glibc of Debian 12; a wheel for an older one runs on a newer one.
_GLIBC_MINORS: Final = range(36, 4, -1)
_INTERPRETER: Final = "/usr/bin/python3"
# Counted up when what this module does with the packages changes.
_RECIPE: Final = "2"


def ensure_packages(
    cache: Cache,
    children: Children,
    *,
    name: str,
    requirements: Path,
    python: str,
    machine: str | None = None,
) -> Entry:
    """An entry with site/ (importable) and bin/ (scripts) of exactly these requirements.

    `machine` such as "aarch64" when it is not this one: wheels are only unpacked, so any will do.
    """
    machine = machine or platform.machine()
    text = requirements.read_text(encoding="utf-8")
    entry = packages_entry(cache, name=name, requirements=requirements, python=python, machine=machine)
    with cache.lock(f"python-{name}", stopping=children.stopping):
        if entry.exists:
            cache.touch(entry)
            return entry
        with cache.scratch(name) as scratch:
            chosen = scratch / "requirements.txt"
            chosen.write_text(for_image(text, python=python, machine=machine), encoding="utf-8")
            tree = scratch / "tree"
            site = tree / "site"
            site.mkdir(parents=True)
            children.check(
                _pip(chosen, target=site, python=python, machine=machine),
                where=f"Python packages of the {name} image",
                fix="check the network and pip's package index, then start again",
                timeout=1200,
            )
            _part_scripts(site, tree / "bin")
            cache.publish(entry, tree)
    return entry


def packages_entry(cache: Cache, *, name: str, requirements: Path, python: str, machine: str) -> Entry:
    """Where exactly these requirements lie."""
    text = requirements.read_text(encoding="utf-8")
    return cache.entry("python", name, key_of(_RECIPE, text, python, machine))


def for_image(text: str, *, python: str, machine: str) -> str:
    """The requirements whose markers hold inside the image.

    pip evaluates markers for the interpreter that runs it, whatever it installs for.
    """
    environment = {
        "implementation_name": "cpython",
        "implementation_version": f"{python}.0",
        "os_name": "posix",
        "platform_machine": machine,
        "platform_python_implementation": "CPython",
        "platform_system": "Linux",
        "platform_release": "",
        "platform_version": "",
        "python_full_version": f"{python}.0",
        "python_version": python,
        "sys_platform": "linux",
        "extra": "",
    }
    kept = []
    for block in _blocks(text):
        requirement = _requirement(block)
        if requirement is None:
            continue
        if requirement.marker is None or requirement.marker.evaluate(environment):
            kept.append(re.sub(r"\s*;[^\\\n]*", " ", block, count=1))
    return "\n".join(kept) + "\n"


def _blocks(text: str) -> Iterator[str]:
    """Logical lines: a requirement together with the hashes on its continuation lines."""
    block: list[str] = []
    for line in text.splitlines():
        if not block and (not line.strip() or line.lstrip().startswith("#")):
            continue
        block.append(line)
        if not line.rstrip().endswith("\\"):
            yield "\n".join(block)
            block = []


def _requirement(block: str) -> Requirement | None:
    first = block.split("\\")[0].split(" --hash")[0].strip()
    try:
        return Requirement(first)
    except InvalidRequirement:
        return None


def _pip(requirements: Path, *, target: Path, python: str, machine: str) -> list[str]:
    legacy = [f"manylinux2014_{machine}", f"manylinux2010_{machine}", f"manylinux1_{machine}"]
    modern = [f"manylinux_2_{minor}_{machine}" for minor in _GLIBC_MINORS]
    platforms = [*modern, *legacy, f"linux_{machine}", "any"]
    short = f"cp{python.replace('.', '')}"
    return [
        *(sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--no-deps", "--require-hashes"),
        *("--only-binary", ":all:", "--python-version", python, "--implementation", "cp"),
        *(item for abi in (short, "abi3", "none") for item in ("--abi", abi)),
        *(item for name in platforms for item in ("--platform", name)),
        *("--target", str(target), "--requirement", str(requirements)),
    ]


def _part_scripts(site: Path, scripts: Path) -> None:
    """Move scripts out of the packages, and their digests out of the RECORDs: pip writes the path of its own
    interpreter into a script, so that the packages would differ from checkout to checkout.
    """
    scripts.mkdir()
    for record in site.glob("*.dist-info/RECORD"):
        lines = record.read_text(encoding="utf-8").splitlines(keepends=True)
        record.write_text("".join(each for each in lines if not each.startswith("../../bin/")), "utf-8")
    made = site / "bin"
    if not made.is_dir():
        return
    for path in made.iterdir():
        content = path.read_bytes()
        target = scripts / path.name
        target.write_bytes(with_interpreter(content))
        target.chmod(0o755)
        path.unlink()
    made.rmdir()


def with_interpreter(content: bytes) -> bytes:
    """The script with its first line pointing at the image's interpreter; anything else unchanged.

    pip writes the installing interpreter there, or three lines of shell when its path is too long.
    """
    line = f"#!{_INTERPRETER}\n".encode()
    lines = content.split(b"\n", 3)
    if lines[0] == b"#!/bin/sh" and len(lines) == 4 and lines[1].startswith(b"'''exec'"):
        return line + lines[3]
    if lines[0].startswith(b"#!") and b"python" in lines[0]:
        return line + content.split(b"\n", 1)[1]
    return content
