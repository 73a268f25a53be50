"""When a call over HTTP is made again: for the clients of Kubernetes and of GitHub and GitLab.

Tried again after a delay are a server that does not respond, where the call may be repeated, and a busy one.
"""

from collections.abc import Callable
from http.client import HTTPException
from typing import Final, Protocol, TypeVar

TRIES: Final = 4
LONGEST_DELAY: Final = 90.0
"""Seconds. A longer delay is reported as an error instead of waited for, because CI minutes cost money."""
REPEATABLE: Final = ("GET", "PUT", "PATCH")
"""Of a call whose answer was lost, the second has the same effect."""
BUSY: Final = (429, 502, 503, 504)
LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
"""Hosts that no proxy is asked for."""


class Answered(Protocol):
    @property
    def status(self) -> int: ...


Answer = TypeVar("Answer", bound=Answered)


def call(
    ask: Callable[[], Answer],
    method: str,
    *,
    tries: int,
    wait: Callable[[float], None],
    delay: Callable[[Answer, int], float | None],
) -> Answer:
    """The last answer, or the OSError or HTTPException of the last try. `delay`: of a refusal and the number
    of the try, seconds until the next one, None where it would not help.
    """
    for attempt in range(1, tries + 1):
        try:
            answer = ask()
        except (OSError, HTTPException):
            if attempt == tries or method not in REPEATABLE:
                raise
            wait(2.0**attempt)
            continue
        pause = None if answer.status < 300 else delay(answer, attempt)
        is_done_perhaps = method not in REPEATABLE and answer.status in (502, 504)
        if pause is None or attempt == tries or is_done_perhaps:
            return answer
        wait(pause)
    raise AssertionError("the last attempt returns or raises")
