"""Waiting for what has to come, with what a person would want to see when it does not."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

# It costs nothing when it comes early; a machine may be busy with eight other things.
PATIENCE: Final = 180.0


def eventually(what: str, reached: Callable[[], Any], *, told: Callable[[], str] = str) -> Any:
    """What `reached` gives as soon as it gives something; a server that is away is asked again. `told` is
    asked only when it never does.
    """
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with suppress(OSError):  # HTTPError is one
            if found := reached():
                return found
        time.sleep(0.1)
    raise AssertionError(f"never came true: {what}\n{told()}")
