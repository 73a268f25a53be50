"""Percentiles by nearest rank."""

from collections.abc import Sequence


def percentile(ordered: Sequence[float], percent: int) -> float:
    """The smallest value that at least this many percent of the values do not exceed. There must be one."""
    return ordered[max(-(-len(ordered) * percent // 100) - 1, 0)]
