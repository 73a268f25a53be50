"""How many seeds, and which: CI runs a few fixed ones, `make soak` as many as it is asked for.

SEED=123 runs that one again. SEEDS=50 draws fifty, and makes everything exhaustive that CI samples.
"""

from __future__ import annotations

import os
import random
from typing import Final

_IN_CI: Final = (1, 2, 3)


def seeds() -> list[int]:
    if one := os.environ.get("SEED"):
        return [int(one)]
    count = int(os.environ.get("SEEDS") or 0)
    return [random.SystemRandom().randrange(10**9) for _ in range(count)] or list(_IN_CI)


def is_soak() -> bool:
    return bool(os.environ.get("SEEDS"))
