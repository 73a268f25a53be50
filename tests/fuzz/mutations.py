"""Changed files, and what an importer may do with them."""

import gzip
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final

from muster.errors import MusterError
from muster.replay.recording import limited_memory
from tests.fuzz.importers import Importer

MOST_BYTES: Final = 2 * 1024**3
_GZIP: Final = b"\x1f\x8b"
# What parsers treat in ways of their own.
_TOKENS: Final = (
    *(b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\r\n", b"'", b'"', b"{", b"[" * 50, b"}", b"..", b"/", b"*a"),
    *(b"&a [*a]", b"!!python/object", b"1e999", b"-1", b"NaN", b"9" * 400, b"null", b"true", b"\\u0000"),
)
_Change = Callable[[bytes, Random], bytes]


def changed(seeds: Sequence[bytes], dice: Random) -> bytes:
    """One of the files with a few changes; one that is packed is changed inside, mostly."""
    content = dice.choice(seeds)
    if content.startswith(_GZIP) and dice.random() < 0.7:
        return gzip.compress(_edited(gzip.decompress(content), dice), compresslevel=1)
    return _edited(content, dice)


def attempt(importer: Importer, content: bytes, folder: Path) -> None:
    """Let it read the file. What is neither an answer nor one error of ours passes to the caller."""
    path = folder / f"file{importer.ending}"
    path.write_bytes(content)
    with limited_memory(MOST_BYTES), suppress(MusterError):
        importer.read(path)


def digest(content: bytes) -> str:
    return f"{zlib.crc32(content):08x}"


def _edited(content: bytes, dice: Random) -> bytes:
    for _ in range(dice.choice((1, 1, 2, 5, 20))):
        content = dice.choice(_CHANGES)(content, dice)
    return content


def _part(content: bytes, dice: Random) -> tuple[int, int]:
    start = dice.randrange(len(content) + 1)
    return start, min(start + dice.choice((1, 2, 8, 64, 1024)), len(content))


def _flip(content: bytes, dice: Random) -> bytes:
    start, end = _part(content, dice)
    return content[:start] + dice.randbytes(end - start) + content[end:]


def _cut(content: bytes, dice: Random) -> bytes:
    start, end = _part(content, dice)
    return content[:start] + content[end:]


def _double(content: bytes, dice: Random) -> bytes:
    start, end = _part(content, dice)
    return content[:end] + content[start:end] * dice.choice((1, 2, 50)) + content[end:]


def _insert(content: bytes, dice: Random) -> bytes:
    start, _ = _part(content, dice)
    return content[:start] + dice.choice(_TOKENS) + content[start:]


def _end(content: bytes, dice: Random) -> bytes:
    return content[: _part(content, dice)[0]]


_CHANGES: Final[tuple[_Change, ...]] = (_flip, _cut, _double, _insert, _end)
