"""The modules in a Go program, as the linker has written them into it.

From Go 1.18 on, a header of 32 bytes is followed by Go's version and the modules, each as its length and its
text: https://go.dev/src/debug/buildinfo/buildinfo.go
"""

from dataclasses import dataclass
from typing import Final

from muster.errors import MusterError

_MAGIC: Final = b"\xff Go buildinf:"
_FLAGS: Final = len(_MAGIC) + 1
_IS_INLINE: Final = 2
_HEADER: Final = 32
# The header lies at a multiple of this. The magic bytes elsewhere are those of a program that looks for them.
_ALIGNED: Final = 16
_UNVERSIONED: Final = "(devel)"
# Marks at both ends of the list of modules.
_MARK: Final = 16


@dataclass(frozen=True, slots=True)
class BuildInfo:
    """`go`: the version of Go, such as "1.26.8". `modules`: path and version of each linked module."""

    go: str
    modules: tuple[tuple[str, str], ...]


def build_info(program: bytes, *, name: str) -> BuildInfo:
    """Of a program for any processor. MusterError where it is none of Go; `name` is for the message."""
    start = program.find(_MAGIC)
    while start >= 0:
        if start % _ALIGNED == 0 and program[start + _FLAGS] & _IS_INLINE:
            go, after = _text(program, start + _HEADER)
            listed, _ = _text(program, after)
            version = go.decode().removeprefix("go")
            return BuildInfo(version, linked_modules(listed[_MARK:-_MARK].decode()))
        start = program.find(_MAGIC, start + 1)
    raise MusterError(f"{name}: lists no Go modules.", fix="build it again with Go 1.18 or later.")


def linked_modules(listed: str) -> tuple[tuple[str, str], ...]:
    """Of a program's list: the module of the program itself, and each dependency in a line. `=>` replaces the
    one in the line before, unless by a folder of the machine that built it. What has no version is not
    listed.
    """
    found: list[tuple[str, str]] = []
    for line in listed.splitlines():
        kind, *rest = line.split() or [""]
        if kind in ("mod", "dep"):
            found.append((rest[0], rest[1]))
        elif kind == "=>" and rest[1] != _UNVERSIONED:
            found[-1] = (rest[0], rest[1])
    return tuple((name, version) for name, version in found if version != _UNVERSIONED)


def _text(program: bytes, at: int) -> tuple[bytes, int]:
    """The text at a place and the place behind it. Its length has seven bits in a byte, the lowest first."""
    length = shift = 0
    while True:
        byte = program[at]
        length |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return program[at : at + length], at + length
