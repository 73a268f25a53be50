"""Where a command's text goes."""

import sys
from pathlib import Path
from typing import Final

STDOUT: Final = "-"


def put(where: str, text: str) -> None:
    """Into a file, or to standard output where it is `-`."""
    if where == STDOUT:
        sys.stdout.buffer.write(text.encode())
        sys.stdout.flush()
    else:
        Path(where).write_bytes(text.encode())
