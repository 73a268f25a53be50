"""How many seeds, and which: `make test` runs one, `make test-all` a few fixed ones, `make soak` draws as
many as it is asked for, twenty where it is not.

SEEDS=50 draws fifty, and makes everything exhaustive that they sample. SEED=123 runs that one again, alone.
"""

import os
import random
from typing import Final

from tests.length import is_short

_FIXED: Final = (1, 2, 3)


def seeds() -> list[int]:
    if one := os.environ.get("SEED"):
        return [int(one)]
    drawn = [random.SystemRandom().randrange(10**9) for _ in range(_asked())]
    return drawn or list(_FIXED[:1] if is_short() else _FIXED)


def is_soak() -> bool:
    return _asked() > 0


def _asked() -> int:
    return int(os.environ.get("SEEDS") or 0)
