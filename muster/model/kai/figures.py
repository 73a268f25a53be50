"""Amounts as KAI counts them: a number, or unlimited.

KAI writes "unlimited" as -1, reads a missing figure as 0, and a limit of 0 as "nothing" (docs/queues of
KAI 0.17.0). Here a figure is a typed amount or UNLIMITED, and only the renderer uses these numbers.
"""

from collections.abc import Iterable
from enum import Enum
from typing import Final, NewType, TypeAlias, TypeVar

# A queue may have a part of a GPU: 500 is half of one.
MilliGpus = NewType("MilliGpus", int)


class Unlimited(Enum):
    """More than anything."""

    UNLIMITED = "unlimited"


UNLIMITED: Final = Unlimited.UNLIMITED

Amount = TypeVar("Amount", bound=int, covariant=True)
Figure: TypeAlias = Amount | Unlimited


def added(figures: Iterable[Figure[int]]) -> Figure[int]:
    """The sum; one figure without bound makes a sum without bound."""
    total = 0
    for figure in figures:
        if isinstance(figure, Unlimited):
            return UNLIMITED
        total += figure
    return total


def within(figure: Figure[int], bound: Figure[int]) -> bool:
    """Whether `figure` is no more than `bound`."""
    if isinstance(bound, Unlimited):
        return True
    return not isinstance(figure, Unlimited) and figure <= bound
