"""Ends the program quietly when the engine interrupts it.

The engine runs the program in a process group of its own, which Ctrl-C on a terminal does not reach. It
interrupts the program itself, after Ctrl-C and after a resource could not be made, once everything that
had begun is over and recorded. A traceback of whatever the program was waiting for would not help the
user, and a program that does not end is killed after five seconds.
"""

import atexit
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Final

# The exit code that shells report for a process that SIGINT ended.
_INTERRUPTED: Final = 128 + signal.SIGINT
_tidying: Final[list[Callable[[], object]]] = []


def go_quietly() -> None:
    """Exit without output when SIGINT comes, from now on."""
    signal.signal(signal.SIGINT, _go)


def at_the_end(tidy: Callable[[], object]) -> None:
    """Run `tidy` however the program ends, unless it is killed."""
    _tidying.append(tidy)
    atexit.register(tidy)


def _go(number: int, frame: FrameType | None) -> None:
    for tidy in _tidying:
        with suppress(Exception):  # an interrupt may come at any point; run the others in any case
            tidy()
    os._exit(_INTERRUPTED)
