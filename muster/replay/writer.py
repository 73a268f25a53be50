"""Writes a recording: appends lines to a file, goes on with one after a kill, and puts full files aside.

Lines are collected and written in one go, as one block of gzip where the file's name ends with `.gz`, so that
a kill costs at most what was not flushed. A file that was put aside is complete in itself: the next one
begins with every job that has not left.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from muster.errors import ExitCode
from muster.replay.errors import RecordingError
from muster.replay.lines import Line, Mark, format_line
from muster.replay.reader import GZIP, older_parts, pack, part_name, read_content
from muster.replay.recording import Header, Job, Recording

ROTATE_BYTES: Final = 256 * 1024 * 1024


class Writer:
    """The end of one file. `open_jobs` are those that have not left: the next part repeats them."""

    def __init__(self, path: Path, header: Header, *, rotate_bytes: int = ROTATE_BYTES) -> None:
        self.path = path
        self._header = header
        self._rotate_bytes = rotate_bytes
        self._pending: list[bytes] = []
        self._open: dict[str, Job] = {}

    @classmethod
    def begin(cls, path: Path, header: Header, *, rotate_bytes: int = ROTATE_BYTES) -> Self:
        """A new file. RecordingError when there is one already."""
        if path.exists():
            raise RecordingError(f"{path}: the file exists already.", fix="name another file, or remove it.")
        writer = cls(path, header, rotate_bytes=rotate_bytes)
        writer._pending.append(format_line(header))
        writer.flush()
        return writer

    @classmethod
    def resume(cls, path: Path, found: Recording, *, rotate_bytes: int = ROTATE_BYTES) -> Self:
        """Go on with the file that `found` was read from. An incomplete end is cut off first."""
        writer = cls(path, found.header, rotate_bytes=rotate_bytes)
        content = read_content(path)
        if content.is_torn:
            os.truncate(path, content.sound)
            writer._pending.append(content.tail)
        writer._open = {job.id: job for job in found.jobs if job.left is None}
        return writer

    def add(self, lines: Iterable[Line]) -> None:
        """Collect lines for the next flush."""
        for line in lines:
            self._pending.append(format_line(line))
            if isinstance(line, Job):
                self._remember(line)
            elif isinstance(line, Mark):
                self._header = replace(self._header, end=max(self._header.end, line.at))

    def flush(self) -> None:
        """Write what was collected, so that it outlives this process; then put a full file aside."""
        if not self._pending:
            return
        text = b"".join(self._pending)
        if self.path.name.endswith(GZIP):
            text = pack(text)
        try:
            with self.path.open("ab") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
                size = file.tell()
        except OSError as error:
            raise RecordingError(
                f"{self.path}: cannot be written: {error.strerror}.",
                fix="give it a folder that exists and has room; then run the command again, it goes on.",
                exit_code=ExitCode.OUTSIDE,
            ) from None
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

    def _remember(self, job: Job) -> None:
        if job.left is None:
            self._open[job.id] = job
        else:
            self._open.pop(job.id, None)

    def _rotate(self) -> None:
        self.path.rename(part_name(self.path, len(older_parts(self.path)) + 1))
        self._pending = [format_line(self._header), *map(format_line, self._open.values())]
        text = b"".join(self._pending)
        self._pending.clear()
        self.path.write_bytes(pack(text) if self.path.name.endswith(GZIP) else text)


def write_recording(path: Path, recording: Recording) -> None:
    """A whole recording as a new file."""
    with Writer.begin(path, recording.header) as writer:
        writer.add(recording.gaps)
        writer.add(recording.jobs)
        writer.add([Mark(recording.header.end)])
