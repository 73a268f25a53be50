"""Percentiles by nearest rank, and intervals by order."""

from collections.abc import Sequence


def percentile(ordered: Sequence[float], percent: int) -> float:
    """The smallest value that at least this many percent of the values do not exceed. There must be one."""
    return ordered[max(-(-len(ordered) * percent // 100) - 1, 0)]


def interval(ordered: Sequence[float], percent: int) -> tuple[float, float]:
    """The middle values between which another value of the same kind lies with this probability, or a little
    more. There must be some.
    """
    # Another value lies in each gap between n values, before them or after them with equal probability.
    rank = max((len(ordered) + 1) * (100 - percent) // 200, 1)
    return ordered[rank - 1], ordered[-rank]
