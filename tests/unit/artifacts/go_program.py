"""The part of a Go program in which the linker lists its modules."""

from typing import Final

MAGIC: Final = b"\xff Go buildinf:"
_INLINE: Final = 2
_MARK: Final = b"0123456789abcdef"


def go_program(listed: str) -> bytes:
    """With the lines of `go version -m`, each without its indentation."""
    header = MAGIC + bytes([0, _INLINE]) + bytes(16)
    modules = f"path\tx\nmod\tx\t(devel)\n{listed}".encode()
    return bytes(64) + header + _text(b"go1.26.8") + _text(_MARK + modules + _MARK)


def _text(content: bytes) -> bytes:
    length, written = len(content), bytearray()
    while length >= 0x80:
        written.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([*written, length]) + content
