"""Files of other processes: written, they appear whole or not at all; read, they have a bound."""

import os
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Replace the file at once. An interrupted call leaves the old one. Raises OSError."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_bytes(content)
    fresh.replace(path)


def read_at_most(path: Path, most: int) -> bytes | None:
    """The bytes of a file; None where there are more than `most`, also of a device or a pipe, which has no
    size. Raises OSError.
    """
    with path.open("rb") as file:
        content = file.read(most + 1)
    return content if len(content) <= most else None
