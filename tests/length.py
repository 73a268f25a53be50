"""How much of the tests runs: what `make test` takes, everything, or more examples by night.

`make test` sets MUSTER_TESTS=short: what long.toml lists is left out, the fault suite takes one seed, and
property tests take a fifth of their examples. Without it, and so for whoever calls pytest, everything runs.
MUSTER_EXAMPLES=10, as the nightly job has it, takes ten times as many examples.
"""

import os
import tomllib
from functools import cache
from pathlib import Path
from typing import Final

VARIABLE: Final = "MUSTER_TESTS"
SHORT: Final = "short"
_SHARE: Final = 5


@cache
def long_tests() -> dict[str, str]:
    """What `make test` leaves to `make test-all`: folder, file or test, and why it can wait."""
    return dict(tomllib.loads(Path(__file__).with_name("long.toml").read_text(encoding="utf-8")))


def is_short() -> bool:
    return os.environ.get(VARIABLE) == SHORT


def is_long(test: str) -> bool:
    """Whether the folder, file or test, named as pytest names it, is left to `make test-all` as a whole."""
    return any(
        test == long or test.startswith((f"{long}/", f"{long}::", f"{long}[")) for long in long_tests()
    )


def examples(usual: int) -> int:
    """How many examples a property test takes that takes `usual` in `make test-all`."""
    many = usual * int(os.environ.get("MUSTER_EXAMPLES") or 1)
    return max(many // _SHARE, 1) if is_short() else many
