"""Writes a recording: appends lines to a file, goes on with one after a kill, and puts full files aside.

Lines are collected and written in one go, as one block of gzip where the file's name ends with `.gz`, so that
a kill costs at most what was not flushed. A file that was put aside is complete in itself: the next one
begins with every job and every node that has not left.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from muster.errors import ExitCode
from muster.replay.reader import GZIP, next_part, older_parts, pack, read_content
from muster.replay.recording import Header, Job, Node, Recording, RecordingError
from muster.replay.stored import Line, Mark, format_line

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
