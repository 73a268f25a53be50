"""Reads a recording: one file of JSON Lines, plain or gzip, and the older parts beside it.

A recorder that was killed leaves a last line, or a last block of gzip, that is incomplete. It is left out,
and the recording carries a warning.
"""

import glob
import gzip
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from muster.replay.recording import Recording, RecordingError
from muster.replay.stored import NO_RECORDING, Line, fold, parse_line

GZIP: Final = ".gz"
_MEMBER: Final = 16 + zlib.MAX_WBITS
_MAGIC: Final = b"\x1f\x8b"
_HEADER: Final = re.compile(rb'\s*\{\s*"header"\s*:')
_CHUNK: Final = 64 * 1024
# What gzip makes of a recorder's lines is a tenth of them. It can be made to be a thousandth.
_RATIO: Final = 64
_UNPACKED: Final = 256 * 1024**2


@dataclass(frozen=True, slots=True)
class Content:
    """The complete lines of one file. The first `sound` of its `size` bytes hold `text`; `tail` are complete
    lines of the rest.
    """

    text: bytes
    sound: int
    size: int
    tail: bytes = b""

    @property
    def is_torn(self) -> bool:
        return self.sound < self.size


def load_recording(path: Path, *, most_older: int | None = None) -> Recording:
    """The recording in a file and in its older parts; RecordingError when it is none. `most_older`: how many
    of these parts are read, the newest ones. A file holds every job that had not left when the part before it
    was put aside.
    """
    older = older_parts(path)
    skipped = 0 if most_older is None else max(len(older) - most_older, 0)
    files = [*older[skipped:], path]
    warnings: list[str] = []
    lines = (line for file in files for line in _lines(file, warnings))
    # The warnings are known once all lines were read.
    return replace(fold(lines, source=str(path)), warnings=tuple(warnings))


def older_parts(path: Path) -> list[Path]:
    """The parts that rotation has put aside, oldest first: `month.0001.jsonl.gz` of `month.jsonl.gz`."""
    stem, dot, ending = path.name.partition(".")
    found = path.parent.glob(f"{glob.escape(stem)}.[0-9][0-9][0-9][0-9]{dot}{glob.escape(ending)}")
    return sorted(found)


def next_part(path: Path) -> Path:
    """The file of the next older part. Its number is above all others: a user may delete parts."""
    stem, dot, ending = path.name.partition(".")
    last = older_parts(path)[-1:]
    number = max((int(each.name[len(stem) + 1 :][:4]) for each in last), default=0) + 1
    return path.with_name(f"{stem}.{number:04}{dot}{ending}")


def read_content(path: Path) -> Content:
    """The complete lines of a file; RecordingError when it cannot be read."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise RecordingError(f"{path}: cannot be read: {error.strerror}.", fix=NO_RECORDING) from None
    if path.name.endswith(GZIP) or raw.startswith(_MAGIC):
        return _unpack(raw, path)
    whole = raw.rfind(b"\n") + 1
    return Content(raw[:whole], whole, len(raw))


def pack(text: bytes) -> bytes:
    """One block of gzip, which can be read without those after it."""
    return gzip.compress(text, mtime=0)


def _lines(file: Path, warnings: list[str]) -> Iterator[Line]:
    content = read_content(file)
    if content.is_torn:
        warnings.append(
            f"{file}: the end is incomplete, as after a kill: of its last {content.size - content.sound} "
            f"bytes, from byte {content.sound}, only whole lines that can be read are kept."
        )
    whole = content.text + content.tail
    if content.is_torn and not whole:
        raise RecordingError(f"{file}: ends before its first line is complete.", fix=NO_RECORDING)
    if whole.strip() and not _HEADER.match(whole):
        raise RecordingError(f"{file}: is not a recording: its first line is no header.", fix=NO_RECORDING)
    for number, text in enumerate(whole.splitlines(), start=1):
        if text.strip():
            yield parse_line(text, place=f"{file}, line {number}")


def _unpack(raw: bytes, path: Path) -> Content:
    """Block by block. Of a last block that is incomplete, the lines that can be read are the tail."""
    if raw and not raw.startswith(_MAGIC[: len(raw)]):
        raise RecordingError(f"{path}: its name ends with {GZIP}, but it is not gzip.", fix="rename it.")
    texts: list[bytes] = []
    sound, room = 0, _UNPACKED + _RATIO * len(raw)
    while sound < len(raw):
        text, end = _block(raw, sound, room)
        room -= len(text)
        if room <= 0:
            message = f"{path}: unpacks to more than {_RATIO} times its size, as no recording does."
            raise RecordingError(message, fix=NO_RECORDING)
        if end is None:
            _refuse_if_followed(raw, sound, path)
            return Content(b"".join(texts), sound, len(raw), tail=text[: text.rfind(b"\n") + 1])
        texts.append(text)
        sound = end
    return Content(b"".join(texts), sound, len(raw))


def _refuse_if_followed(raw: bytes, damaged: int, path: Path) -> None:
    """A kill tears the end of a file only. What follows elsewhere must not be lost without a word."""
    later = raw.find(_MAGIC, damaged + 1)
    while later >= 0:
        if _block(raw, later, _UNPACKED)[1] is not None:
            raise RecordingError(
                f"{path}: the block at byte {damaged} is damaged; the next sound one is at byte {later}.",
                fix="restore the file from a copy, or record into another file.",
            )
        later = raw.find(_MAGIC, later + 1)


def _block(raw: bytes, start: int, room: int) -> tuple[bytes, int | None]:
    """The text of the block at `start`, up to `room` bytes, and where the next one begins; None where it has
    no end.
    """
    block, position = zlib.decompressobj(_MEMBER), start
    texts: list[bytes] = []
    while position < len(raw) and not block.eof and room > 0:
        try:
            text = block.decompress(raw[position : position + _CHUNK], room)
        except zlib.error:
            return b"".join(texts), None
        texts.append(text)
        room -= len(text)
        position = min(position + _CHUNK, len(raw))
    return b"".join(texts), position - len(block.unused_data) if block.eof else None
