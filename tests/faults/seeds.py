"""How many seeds, and which: CI runs a few fixed ones, `make soak` draws as many as it is asked for, twenty
where it is not.

SEEDS=50 draws fifty, and makes everything exhaustive that CI samples. SEED=123 runs that one again, alone.
"""

from __future__ import annotations

import os
import random
from typing import Final

_IN_CI: Final = (1, 2, 3)


def seeds() -> list[int]:
    if one := os.environ.get("SEED"):
        return [int(one)]
    return [random.SystemRandom().randrange(10**9) for _ in range(_asked())] or list(_IN_CI)


def is_soak() -> bool:
    return _asked() > 0


def _asked() -> int:
    return int(os.environ.get("SEEDS") or 0)
