"""Files that other processes read: they appear whole, or not at all."""

import os
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Replace the file at once. An interrupted call leaves the old one. Raises OSError."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_bytes(content)
    fresh.replace(path)
