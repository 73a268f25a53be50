"""What the program does when it is interrupted: it goes, without a word.

The engine runs it in a process group of its own, which a terminal's Ctrl-C does not reach, and interrupts it
when there is no more use for it: once what had begun is over and written down, after somebody's Ctrl-C and
after a resource that could not be made. Whatever the program was waiting for, a traceback of it tells nobody
anything; not to go would cost the five seconds after which the engine kills it.
"""

import atexit
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Final

# As shells say it of a process that SIGINT ended.
_INTERRUPTED: Final = 128 + signal.SIGINT
_tidying: Final[list[Callable[[], object]]] = []


def go_quietly() -> None:
    """From now on."""
    signal.signal(signal.SIGINT, _go)


def at_the_end(tidy: Callable[[], object]) -> None:
    """Whichever way the program ends, short of being killed."""
    _tidying.append(tidy)
    atexit.register(tidy)


def _go(number: int, frame: FrameType | None) -> None:
    for tidy in _tidying:
        with suppress(Exception):  # an interrupt may come in the middle of anything: the next may still do
            tidy()
    os._exit(_INTERRUPTED)
