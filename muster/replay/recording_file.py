"""The file of a recording: JSON Lines, plain or gzip, and the older parts beside it.

A recorder that was killed leaves a last line, or a last block of gzip, that is incomplete. The reader leaves
it out, and the recording carries a warning; the writer goes on after it.

Lines are collected and written in one go, as one block of gzip where the file's name ends with `.gz`, so that
a kill costs at most what was not flushed. A full file is put aside and is complete in itself: the next one
begins with every job and every node that has not left.
"""

from __future__ import annotations

import glob
import gzip
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from muster.errors import ExitCode
from muster.replay.recording import Header, Job, Node, Recording, RecordingError
from muster.replay.stored import NO_RECORDING, Line, Mark, fold, format_line, parse_line

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


ROTATE_BYTES: Final = 256 * 1024 * 1024


class Writer:
    """The end of one file. `keep_bytes`: when a file is put aside, the oldest parts are deleted until all
    files together have at most this size; None keeps them.
    """

    def __init__(
        self, path: Path, header: Header, *, rotate_bytes: int = ROTATE_BYTES, keep_bytes: int | None = None
    ) -> None:
        self.path = path
        self._header = header
        self._rotate_bytes = rotate_bytes
        self._keep_bytes = keep_bytes
        self._pending: list[bytes] = []
        self._open: dict[str, Job | Node] = {}

    @classmethod
    def begin(
        cls, path: Path, header: Header, *, rotate_bytes: int = ROTATE_BYTES, keep_bytes: int | None = None
    ) -> Self:
        """A new file. RecordingError when there is one already, or older parts of one."""
        if path.exists():
            raise RecordingError(f"{path}: the file exists already.", fix="name another file, or remove it.")
        if parts := older_parts(path):
            raise RecordingError(
                f"{path}: the file is missing, but older parts of it exist, such as {parts[-1].name}.",
                fix=f"put it back ({_fresh(path).name} is it after a kill), or name another file.",
            )
        writer = cls(path, header, rotate_bytes=rotate_bytes, keep_bytes=keep_bytes)
        writer._pending.append(format_line(header))
        writer.flush()
        return writer

    @classmethod
    def resume(
        cls, path: Path, found: Recording, *, rotate_bytes: int = ROTATE_BYTES, keep_bytes: int | None = None
    ) -> Self:
        """Go on with the file that `found` was read from. An incomplete end is cut off first."""
        writer = cls(path, found.header, rotate_bytes=rotate_bytes, keep_bytes=keep_bytes)
        content = read_content(path)
        if content.is_torn:
            try:
                os.truncate(path, content.sound)
            except OSError as error:
                raise _unwritable(path, error) from None
            writer._pending.append(content.tail)
        writer._open = {job.id: job for job in found.jobs if job.left is None}
        writer._open |= {node.id: node for node in found.nodes if node.left is None}
        return writer

    def add(self, lines: Iterable[Line]) -> None:
        """Collect lines for the next flush."""
        for line in lines:
            self._pending.append(format_line(line))
            if isinstance(line, Job | Node):
                self._remember(line)
            elif isinstance(line, Header):
                self._header = line
            elif isinstance(line, Mark):
                self._header = replace(self._header, end=max(self._header.end, line.at))

    def flush(self) -> None:
        """Write what was collected, so that it outlives this process; then put a full file aside."""
        if not self._pending:
            return
        text = self._pack(b"".join(self._pending))
        try:
            size = _append(self.path, text)
        except OSError as error:
            raise _unwritable(self.path, error) from None
        self._pending.clear()
        if size >= self._rotate_bytes:
            self._rotate()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not RecordingError:
            self.flush()

    def _remember(self, line: Job | Node) -> None:
        if line.left is None:
            self._open[line.id] = line
        else:
            self._open.pop(line.id, None)

    def _rotate(self) -> None:
        """The next file is complete under another name before this one is put aside."""
        part, fresh = next_part(self.path), _fresh(self.path)
        text = b"".join([format_line(self._header), *map(format_line, self._open.values())])
        try:
            fresh.unlink(missing_ok=True)
            _append(fresh, self._pack(text))
            if part.exists():
                raise RecordingError(f"{part}: the file exists already.", fix="move it to another folder.")
            self.path.rename(part)
            fresh.rename(self.path)
            self._delete_oldest()
        except OSError as error:
            raise _unwritable(self.path, error) from None

    def _delete_oldest(self) -> None:
        parts = older_parts(self.path)
        sizes = {each: each.stat().st_size for each in (*parts, self.path)}
        for part in parts:
            if self._keep_bytes is None or sum(sizes.values()) <= self._keep_bytes:
                return
            part.unlink()
            del sizes[part]

    def _pack(self, text: bytes) -> bytes:
        return pack(text) if self.path.name.endswith(GZIP) else text


def _append(path: Path, text: bytes) -> int:
    """The size of the file after this text was written to its end. Where that fails, the file is as before:
    whatever is written later must not follow half a block.
    """
    before = path.stat().st_size if path.exists() else None
    try:
        with path.open("ab") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            return file.tell()
    except OSError:
        with suppress(OSError):
            if before is None:
                path.unlink(missing_ok=True)
            else:
                os.truncate(path, before)
        raise


def _fresh(path: Path) -> Path:
    """The next file, until this one is put aside."""
    return path.with_name(f"{path.name}.next")


def _unwritable(path: Path, error: OSError) -> RecordingError:
    return RecordingError(
        f"{path}: cannot be written: {error.strerror}.",
        fix="give it a folder that exists and has room; then run the command again, it goes on.",
        exit_code=ExitCode.OUTSIDE,
    )


def write_recording(path: Path, recording: Recording) -> None:
    """A whole recording as a new file."""
    with Writer.begin(path, recording.header) as writer:
        writer.add(recording.gaps)
        writer.add(recording.jobs)
        writer.add(recording.nodes)
        writer.add([Mark(recording.header.end)])
