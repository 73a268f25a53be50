"""Building, as the commands of `muster local` show it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from muster.cli.output import progress
from muster.local.build.children import BuildStoppedError


@contextmanager
def building() -> Iterator[None]:
    """Show the progress of the block; after Ctrl-C the message names what is kept."""
    try:
        with progress():
            yield
    except KeyboardInterrupt:
        raise BuildStoppedError from None
