"""Python packages for an image, installed on the host for the image's interpreter.

Responsible for: choosing wheels that fit the image, not the host, and correcting the scripts. Versions and
hashes come from requirements/*.txt; nothing is compiled from source.
"""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from packaging.requirements import InvalidRequirement, Requirement

from muster.local.build.cache import Cache, Entry, key_of
from muster.local.build.children import Children

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


def with_interpreter(content: bytes, interpreter: str = _INTERPRETER) -> bytes:
    """The script with its first line pointing at the image's interpreter; anything else unchanged.

    pip writes the installing interpreter there, or three lines of shell when its path is too long.
    """
    line = f"#!{interpreter}\n".encode()
    lines = content.split(b"\n", 3)
    if lines[0] == b"#!/bin/sh" and len(lines) == 4 and lines[1].startswith(b"'''exec'"):
        return line + lines[3]
    if lines[0].startswith(b"#!") and b"python" in lines[0]:
        return line + content.split(b"\n", 1)[1]
    return content
