"""Waiting for what has to come, with what a person would want to see when it does not."""

import time
from collections.abc import Callable
from typing import Any, Final

# It costs nothing when it comes early; a machine may be busy with eight other things.
PATIENCE: Final = 300.0


def eventually(
    what: str,
    reached: Callable[[], Any],
    *,
    told: Callable[[], str] = str,
    step: Callable[[], object] = lambda: None,
) -> Any:
    """What `reached` gives as soon as it gives something; a server that is away, or answers with an error, is
    asked again, after one more `step` of what the test plays. `told` is called only when it never does.
    """
    end, refusal = time.monotonic() + PATIENCE, ""
    while time.monotonic() < end:
        try:
            step()
            if found := reached():
                return found
            refusal = ""
        except OSError as error:  # HTTPError is one
            refusal = f"\nthe last answer: {error}"
        time.sleep(0.1)
    raise AssertionError(f"never came true: {what}{refusal}\n{told()}")
